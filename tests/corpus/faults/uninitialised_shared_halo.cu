// fault: uninitialised of shared array s
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  __shared__ float s[66];
  s[threadIdx.x + 1] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x] + s[threadIdx.x + 2];  // fault
}
