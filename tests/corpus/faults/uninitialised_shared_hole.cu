// fault: uninitialised byte 28 of shared array s
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  __shared__ float s[64];
  if (threadIdx.x != 7) s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = s[63 - threadIdx.x];  // fault
}
