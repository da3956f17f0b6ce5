// fault: barrier different __syncthreads() calls
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  if (threadIdx.x < 32) {
    y[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
  } else {
    y[threadIdx.x] = -x[threadIdx.x];
    __syncthreads();  // fault
    y[threadIdx.x] += 1.0f;
  }
}
