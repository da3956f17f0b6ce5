// expect: compile_error include of
// comment \
 still 
#include "@SECRET@"
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
