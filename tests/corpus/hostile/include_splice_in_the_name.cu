// expect: compile_error include of
#include "@SECRET_HEAD@\
@SECRET_TAIL@"
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
