// task: linear_relu
// launch: zero grid=(ceil_div(m * n, 128)) block=(128) args=(c, m, n)
// launch: partial grid=(ceil_div(n, 16), ceil_div(m, 16), 3) block=(16, 16) args=(a, b, c, m, n, k)
// launch: finish grid=(ceil_div(m * n, 128)) block=(128) args=(bias, c, m, n)
extern "C" __global__ void zero(float* c, int m, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i < m * n) c[i] = 0.0f;
}
extern "C" __global__ void partial(const float* a, const float* b, float* c, int m, int n, int k) {
  int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
  if (row >= m || col >= n) return;
  float sum = 0.0f;
  for (int i = blockIdx.z; i < k; i += gridDim.z) sum += a[row * k + i] * b[i * n + col];
  atomicAdd(&c[row * n + col], sum);
}
extern "C" __global__ void finish(const float* bias, float* c, int m, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i < m * n) c[i] = fmaxf(c[i] + bias[i % n], 0.0f);
}
