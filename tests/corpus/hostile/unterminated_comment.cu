// expect: compile_error comment is not closed
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
/* open
