// expect: compile_error include of
/* a
*/ # /* b */ include /* c
*/ "@SECRET@"
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
