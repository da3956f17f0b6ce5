// fault: race reads in another of its warp, no __syncwarp() between them
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  __shared__ float s[2];
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = x[threadIdx.x];
  y[threadIdx.x] = s[threadIdx.x / 32];  // fault
}
