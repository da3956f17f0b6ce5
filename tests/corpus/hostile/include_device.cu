// expect: compile_error include of
#include "/dev/zero"
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
