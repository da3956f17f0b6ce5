// task: mean_squared_error
// launch: grid=(1) block=(256)
extern "C" __global__ void kernel(const float* u, const float* v, float* y, int n) {
  __shared__ float s[256];
  float sum = 0.0f, lost = 0.0f;
  for (int i = threadIdx.x; i < n; i += 256) {
    float d = u[i] - v[i], term = d * d - lost, next = sum + term;
    lost = (next - sum) - term;
    sum = next;
  }
  s[threadIdx.x] = sum;
  for (int d = 128; d; d >>= 1) {
    __syncthreads();
    if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
  }
  if (threadIdx.x == 0) *y = s[0] / n;
}
