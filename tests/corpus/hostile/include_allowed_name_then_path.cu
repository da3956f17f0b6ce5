// expect: compile_error include of
#include <cuda_fp16.h/../../../@RELATIVE@>
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
