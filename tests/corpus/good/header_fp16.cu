// expect: compiles
#include <cuda_fp16.h>
extern "C" __global__ void kernel(half* y, const __half2* x) {
  y[0] = __hadd(__low2half(x[0]), __float2half(1.5f)) * y[1];
  y[2] = hexp(y[3]);
}
