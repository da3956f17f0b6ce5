// fault: memory_fault of shared array b[256 bytes]
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  __shared__ float a[64], b[64];
  a[threadIdx.x] = x[threadIdx.x];
  b[(int)threadIdx.x - (n > 1024 ? 0 : 1)] = 2.0f;  // fault
  __syncthreads();
  y[threadIdx.x] = a[63 - threadIdx.x] + b[63 - threadIdx.x];
}
