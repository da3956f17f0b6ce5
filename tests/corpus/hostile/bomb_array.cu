// expect: compile_error
// timeout: 3
__device__ char big[8589934592] = {1};
extern "C" __global__ void kernel(float* y) { y[0] = big[(int)y[1]]; }
