// expect: compile_error include of
int n = 1'000/*'*/;
#include "@SECRET@"
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
