// expect: compile_error
#if 1
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
