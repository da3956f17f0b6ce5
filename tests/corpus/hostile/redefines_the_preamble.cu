// expect: compiles
#undef INFINITY
#define INFINITY 0
#define float float
#define private public
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
