// expect: compile_error include of
#if 0
#include "@SECRET@"
#endif
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
