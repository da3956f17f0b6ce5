// task: saxpy
// tolerance: 2e-2 1e-1
// regimes: signed zero
// launch: grid=(ceil_div(n, 128)) block=(128)
#include <cuda_bf16.h>
extern "C" __global__ void kernel(const float* x, const float* z, float* y, float a, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i < n) {
    __nv_bfloat16 r = __hfma(__float2bfloat16(a), __float2bfloat16(x[i]), __float2bfloat16(z[i]));
    y[i] = __bfloat162float(r);
  }
}
