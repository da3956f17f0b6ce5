// task: matmul
// launch: grid=(ceil_div(n, 32), ceil_div(m, 32)) block=(8, 8)
extern "C" __global__ void kernel(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float as[32][8], bs[8][32];
  int tx = threadIdx.x, ty = threadIdx.y, t = ty * 8 + tx;
  int row0 = blockIdx.y * 32, col0 = blockIdx.x * 32;
  float acc[4][4] = {};
  for (int base = 0; base < k; base += 8) {
    for (int i = t; i < 256; i += 64) {
      int r = i / 8, q = i % 8;
      as[r][q] = row0 + r < m && base + q < k ? a[(row0 + r) * k + base + q] : 0.0f;
      bs[i / 32][i % 32] = base + i / 32 < k && col0 + i % 32 < n ? b[(base + i / 32) * n + col0 + i % 32] : 0.0f;
    }
    __syncthreads();
    for (int q = 0; q < 8; ++q) {
      float x[4], y[4];
      for (int i = 0; i < 4; ++i) x[i] = as[ty * 4 + i][q];
      for (int j = 0; j < 4; ++j) y[j] = bs[q][tx * 4 + j];
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) acc[i][j] += x[i] * y[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      int r = row0 + ty * 4 + i, q = col0 + tx * 4 + j;
      if (r < m && q < n) c[r * n + q] = acc[i][j];
    }
}
