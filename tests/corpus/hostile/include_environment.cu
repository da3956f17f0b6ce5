// expect: compile_error include of
#include "/proc/self/environ"
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
