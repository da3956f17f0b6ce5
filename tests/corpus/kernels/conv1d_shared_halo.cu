// task: conv1d
// launch: grid=(ceil_div(n - taps + 1, 128)) block=(128) shared=4 * (128 + 2 * taps)
extern "C" __global__ void kernel(const float* x, const float* weight, float* y, int n, int taps) {
  extern __shared__ float s[];
  float* w = s + 128 + taps;
  int t = threadIdx.x, base = blockIdx.x * 128;
  for (int i = t; i < 128 + taps; i += 128) s[i] = base + i < n ? x[base + i] : 0.0f;
  for (int i = t; i < taps; i += 128) w[i] = weight[i];
  __syncthreads();
  if (base + t > n - taps) return;
  float sum = 0.0f;
  for (int i = 0; i < taps; ++i) sum += s[t + i] * w[i];
  y[base + t] = sum;
}
