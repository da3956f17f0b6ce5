// expect: compile_error __has_include is not allowed
#if __has_embed("@SECRET@")
#endif
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
