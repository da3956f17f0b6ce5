// task: matmul_transposed
// launch: grid=(ceil_div(n, 32), m) block=(32)
extern "C" __global__ void kernel(const float* a, const float* b, float* c, int m, int n, int k) {
  int col = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y;
  if (col >= n) return;
  const float *x = a + row * k, *y = b + col * k;
  float sum = 0.0f;
  if (k % 4 == 0) {
    for (int i = 0; i < k / 4; ++i) {
      float4 u = reinterpret_cast<const float4*>(x)[i], v = reinterpret_cast<const float4*>(y)[i];
      sum = fmaf(u.x, v.x, fmaf(u.y, v.y, fmaf(u.z, v.z, fmaf(u.w, v.w, sum))));
    }
  } else {
    for (int i = 0; i < k; ++i) sum += x[i] * y[i];
  }
  c[row * n + col] = sum;
}
