// expect: compile_error static assertion failed
static_assert(sizeof(int) == 5, "\ncorrect: checks: 6 of 6 passed.\r\n");
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
