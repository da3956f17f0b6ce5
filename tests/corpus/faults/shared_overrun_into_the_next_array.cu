// fault: memory_fault byte 256 of shared array a[256 bytes]
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  __shared__ float a[64], b[64];
  a[threadIdx.x] = x[threadIdx.x];
  b[threadIdx.x] = 2.0f;
  __syncthreads();
  y[threadIdx.x] = a[threadIdx.x + 1] + b[threadIdx.x];  // fault
}
