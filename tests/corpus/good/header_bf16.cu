// expect: compiles
#include <cuda_bf16.h>
extern "C" __global__ void kernel(__nv_bfloat16* y) { y[0] = __float2bfloat16(__bfloat162float(y[1]) + 1.0f); }
