// task: l2_normalize
// launch: grid=(rows) block=(32)
extern "C" __global__ void kernel(const float* x, float* y, int rows, int cols) {
  size_t start = (size_t)blockIdx.x * cols;
  float sum = 0.0f;
  for (int c = threadIdx.x; c < cols; c += 32) sum = fmaf(x[start + c], x[start + c], sum);
  for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  float scale = 1.0f / fmaxf(sqrtf(sum), 1e-12f);
  for (int c = threadIdx.x; c < cols; c += 32) y[start + c] = x[start + c] * scale;
}
