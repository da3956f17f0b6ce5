// expect: compile_error include of
const char* s = "/*";
#include "@SECRET@"
// */
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
