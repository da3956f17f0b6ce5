// expect: compile_error include of
#include "../../../../@RELATIVE@"
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
