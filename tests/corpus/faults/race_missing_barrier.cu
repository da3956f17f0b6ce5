// fault: race reads in warp 0
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = s[63 - threadIdx.x];  // fault
}
