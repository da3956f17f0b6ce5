// fault: race reads in another of its warp, no __syncwarp() between them
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < 32) {
    volatile float* v = s;
    v[threadIdx.x] += v[threadIdx.x + 32];
    v[threadIdx.x] += v[threadIdx.x + 16];  // fault
    v[threadIdx.x] += v[threadIdx.x + 8];
  }
  if (threadIdx.x == 0) y[0] = s[0];
}
