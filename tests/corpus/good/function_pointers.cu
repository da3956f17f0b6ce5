// expect: compiles
__device__ float twice(float a) { return 2 * a; }
__device__ float thrice(float a) { return 3 * a; }
__device__ float (*const table[2])(float) = {twice, thrice};
extern "C" __global__ void kernel(float* y) { y[0] = table[(int)y[1] & 1](y[2]); }
