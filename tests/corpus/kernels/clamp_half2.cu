// task: clamp
// tolerance: 2e-3 2e-3
// regimes: signed zero
// launch: grid=(ceil_div(n, 256)) block=(128)
#include <cuda_fp16.h>
extern "C" __global__ void kernel(const float* x, float* y, float low, float high, int n) {
  int i = (blockIdx.x * 128 + threadIdx.x) * 2;
  if (i >= n) return;
  __half2 v = __floats2half2_rn(x[i], i + 1 < n ? x[i + 1] : 0.0f);
  v = __hmin2(__hmax2(v, __float2half2_rn(low)), __float2half2_rn(high));
  y[i] = __low2float(v);
  if (i + 1 < n) y[i + 1] = __high2float(v);
}
