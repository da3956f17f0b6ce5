// expect: compiles
#include <cuda_runtime.h>
#include <device_launch_parameters.h>
#include <cuda.h>
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] = blockDim.x; }
