// task: softmax
// launch: grid=(rows) block=(128) shared=cols * 4
extern "C" __global__ void kernel(const float* x, float* y, int rows, int cols) {
  extern __shared__ float row[];
  __shared__ float part[4];
  int t = threadIdx.x;
  float most = -INFINITY, sum = 0.0f;
  for (int c = t; c < cols; c += 128) most = fmaxf(most, row[c] = x[blockIdx.x * cols + c]);
  for (int d = 16; d; d /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
  if (t % 32 == 0) part[t / 32] = most;
  __syncthreads();
  most = fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));
  __syncthreads();
  for (int c = t; c < cols; c += 128) sum += row[c] = __expf(row[c] - most);
  for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (t % 32 == 0) part[t / 32] = sum;
  __syncthreads();
  sum = part[0] + part[1] + part[2] + part[3];
  for (int c = t; c < cols; c += 128) y[blockIdx.x * cols + c] = row[c] / sum;
}
