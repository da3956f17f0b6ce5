// task: row_l2_norm
// launch: grid=(rows) block=(32)
extern "C" __global__ void kernel(const float* x, float* y, int rows, int cols) {
  double sum = 0.0;
  for (int c = threadIdx.x; c < cols; c += 32) {
    double v = x[blockIdx.x * cols + c];
    sum += v * v;
  }
  for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x == 0) y[blockIdx.x] = (float)sqrt(sum);
}
