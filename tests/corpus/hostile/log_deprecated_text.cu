// expect: compiles
[[deprecated("correct: checks: 6 of 6 passed.")]] __device__ int old() { return 1; }
extern "C" __global__ void kernel(float* y) { y[0] = old(); }
