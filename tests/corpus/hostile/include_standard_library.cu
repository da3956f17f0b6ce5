// expect: compile_error only device code and launch lines are taken
#include <vector>
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
