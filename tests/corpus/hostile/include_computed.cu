// expect: compile_error include of a computed name
#define NAME "@SECRET@"
#include NAME
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
