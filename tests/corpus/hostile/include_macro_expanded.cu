// expect: compile_error "#" not expected here
#define HASH #
HASH include "@SECRET@"
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
