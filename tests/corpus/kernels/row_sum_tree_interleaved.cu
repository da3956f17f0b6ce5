// task: row_sum
// launch: grid=(rows) block=(64)
extern "C" __global__ void kernel(const float* x, float* y, int rows, int cols) {
  __shared__ float s[64];
  float sum = 0.0f;
  for (int c = threadIdx.x; c < cols; c += 64) sum += x[blockIdx.x * cols + c];
  s[threadIdx.x] = sum;
  __syncthreads();
  for (int d = 1; d < 64; d *= 2) {
    if (threadIdx.x % (2 * d) == 0) s[threadIdx.x] += s[threadIdx.x + d];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = s[0];
}
