// expect: compile_error #line is not allowed
%:line 7 "RESULT"
foo;
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
