// expect: compile_error closing quote
extern "C" __global__ void kernel(float* y) { char c = 'a; }
