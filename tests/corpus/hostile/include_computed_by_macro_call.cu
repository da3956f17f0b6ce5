// expect: compile_error include of a computed name
#define TEXT(x) #x
#define NAME(x) TEXT(x)
#include NAME(@SECRET@)
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
