// expect: compile_error #line is not allowed
# 7 "RESULT: correct"
foo;
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
