// expect: correct
// launch: grid=(ceil_div(n, 256)) block=(256)
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define FAST 1
#elif 0
#error don't
#else
#error no
#endif
#ifndef FAST
#error no
#endif
#if 0
this isn't code
#endif
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i];
}
