// task: matmul
// launch: grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16)
extern "C" __global__ void kernel(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float as[2][16][17], bs[2][16][17];
  int tx = threadIdx.x, ty = threadIdx.y, col = blockIdx.x * 16 + tx, row = blockIdx.y * 16 + ty;
  auto load = [&](int stage, int base) {
    as[stage][ty][tx] = row < m && base + tx < k ? a[row * k + base + tx] : 0.0f;
    bs[stage][ty][tx] = col < n && base + ty < k ? b[(base + ty) * n + col] : 0.0f;
  };
  float sum = 0.0f;
  int stage = 0;
  load(0, 0);
  __syncthreads();
  for (int base = 0; base < k; base += 16) {
    if (base + 16 < k) load(1 - stage, base + 16);
#pragma unroll
    for (int i = 0; i < 16; ++i) sum += as[stage][ty][i] * bs[stage][i][tx];
    stage = 1 - stage;
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = sum;
}
