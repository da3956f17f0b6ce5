// expect: compile_error raw string is not closed
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
const char* s = R"x(abc)y";
