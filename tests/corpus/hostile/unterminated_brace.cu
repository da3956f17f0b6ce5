// expect: compile_error at end of source
extern "C" __global__ void kernel(float* y) { y[0] = 1;
