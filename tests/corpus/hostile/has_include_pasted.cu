// expect: compiles
#define PASTE(a, b) a##b
#if PASTE(__has_, include)("@SECRET@") || PASTE(__has_, include)("/etc/passwd")
#error found
#endif
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
