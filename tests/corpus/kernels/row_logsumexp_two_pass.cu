// task: row_logsumexp
// launch: grid=(rows) block=(96)
__device__ float block_reduce(float v, bool take_max, float* s) {
  for (int d = 16; d; d /= 2) {
    float u = __shfl_xor_sync(~0u, v, d);
    v = take_max ? fmaxf(v, u) : v + u;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
  __syncthreads();
  return take_max ? fmaxf(fmaxf(s[0], s[1]), s[2]) : s[0] + s[1] + s[2];
}
extern "C" __global__ void kernel(const float* x, float* y, int rows, int cols) {
  __shared__ float s[3];
  const float* row = x + blockIdx.x * cols;
  float most = -INFINITY, sum = 0.0f;
  for (int c = threadIdx.x; c < cols; c += 96) most = fmaxf(most, row[c]);
  most = block_reduce(most, true, s);
  for (int c = threadIdx.x; c < cols; c += 96) sum += expf(row[c] - most);
  sum = block_reduce(sum, false, s);
  if (threadIdx.x == 0) y[blockIdx.x] = most + logf(sum);
}
