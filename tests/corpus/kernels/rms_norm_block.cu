// task: rms_norm
// launch: grid=(rows) block=(128)
extern "C" __global__ void __launch_bounds__(128) kernel(const float* x, const float* w, float* y, int rows, int cols) {
  __shared__ float total;
  if (threadIdx.x == 0) total = 0.0f;
  __syncthreads();
  float sum = 0.0f;
  for (int c = threadIdx.x; c < cols; c += 128) sum += x[blockIdx.x * cols + c] * x[blockIdx.x * cols + c];
  for (int d = 16; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) atomicAdd(&total, sum);
  __syncthreads();
  float scale = rsqrtf(total / cols + 1e-6f);
  for (int c = threadIdx.x; c < cols; c += 128) y[blockIdx.x * cols + c] = x[blockIdx.x * cols + c] * scale * w[c];
}
