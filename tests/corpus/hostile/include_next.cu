// expect: compile_error #include_next is not allowed
#include_next "@SECRET@"
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
