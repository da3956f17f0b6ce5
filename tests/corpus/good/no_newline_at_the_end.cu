// expect: compiles
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }