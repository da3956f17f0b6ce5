// task: layer_norm
// launch: grid=(rows) block=(32)
extern "C" __global__ void kernel(const float* x, const float* w, const float* b, float* y, int rows, int cols) {
  const float* row = x + blockIdx.x * cols;
  float mean = 0.0f, m2 = 0.0f, count = 0.0f;
  for (int c = threadIdx.x; c < cols; c += 32) {
    count += 1.0f;
    float delta = row[c] - mean;
    mean += delta / count;
    m2 += delta * (row[c] - mean);
  }
  for (int d = 16; d; d /= 2) {
    float other = __shfl_xor_sync(~0u, mean, d), other2 = __shfl_xor_sync(~0u, m2, d);
    float others = __shfl_xor_sync(~0u, count, d), total = count + others, delta = other - mean;
    if (total > 0.0f) {
      m2 += other2 + delta * delta * count * others / total;
      mean = (mean * count + other * others) / total;
      count = total;
    }
  }
  float scale = rsqrtf(__shfl_sync(~0u, m2, 0) / cols + 1e-5f), centre = __shfl_sync(~0u, mean, 0);
  for (int c = threadIdx.x; c < cols; c += 32) y[blockIdx.x * cols + c] = (row[c] - centre) * scale * w[c] + b[c];
}
