// expect: correct
// launch: grid=(ceil_div(n, 256)) block=(256)
#pragma once
#pragma nv_diag_suppress 177
#pragma GCC diagnostic ignored "-Wall"
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  #pragma unroll 4
  for (int k = 0; k < 1; ++k) if (i < n) z[i] = x[i] + y[i];
  #pragma unroll
  for (int k = 0; k < 4; ++k) {}
  #pragma nounroll
  for (int k = 0; k < 4; ++k) {}
}
