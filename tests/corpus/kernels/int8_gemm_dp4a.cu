// task: int8_matmul
// launch: grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16)
extern "C" __global__ void kernel(const int* a, const int* b, int* c, int m, int n, int k) {
  int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
  if (row >= m || col >= n) return;
  int sum = 0;
  for (int i = 0; i < k; i += 4) {
    unsigned x = 0, y = 0;
    for (int j = 0; j < 4 && i + j < k; ++j) {
      x |= (a[row * k + i + j] & 255u) << 8 * j;
      y |= (b[(i + j) * n + col] & 255u) << 8 * j;
    }
    sum = __dp4a((int)x, (int)y, sum);
  }
  c[row * n + col] = sum;
}
