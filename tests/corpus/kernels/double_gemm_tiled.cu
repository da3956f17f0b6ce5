// task: double_matmul
// launch: grid=(ceil_div(n, 8), ceil_div(m, 8)) block=(8, 8)
extern "C" __global__ void kernel(const double* a, const double* b, double* c, int m, int n, int k) {
  __shared__ double as[8][8], bs[8][9];
  int tx = threadIdx.x, ty = threadIdx.y, col = blockIdx.x * 8 + tx, row = blockIdx.y * 8 + ty;
  double sum = 0.0;
  for (int base = 0; base < k; base += 8) {
    as[ty][tx] = row < m && base + tx < k ? a[row * k + base + tx] : 0.0;
    bs[ty][tx] = col < n && base + ty < k ? b[(base + ty) * n + col] : 0.0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; ++i) sum = fma(as[ty][i], bs[i][tx], sum);
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = sum;
}
