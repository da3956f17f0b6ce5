// fault: barrier different __syncthreads() calls
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  for (int i = 0; i < (threadIdx.x < 32 ? 2 : 3); ++i) {
    y[threadIdx.x] = x[i];
    __syncthreads();  // fault
  }
  if (threadIdx.x < 32) __syncthreads();
  y[threadIdx.x] = 0.0f;
}
