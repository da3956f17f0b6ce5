// expect: compile_error include of
#define x R"(
#include "@SECRET@"
)"
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
