// expect: compile_error Unresolved extern function
__device__ float f(float) asm("vprintf");
extern "C" __global__ void kernel(float* y) { y[0] = f(1); }
