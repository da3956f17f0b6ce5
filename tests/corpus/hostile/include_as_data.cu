// expect: compile_error include of
__device__ const char data[] =
#include "@SECRET@"
;
extern "C" __global__ void kernel(float* y) { y[0] = data[(int)y[1]]; }
