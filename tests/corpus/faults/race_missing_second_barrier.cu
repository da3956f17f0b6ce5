// fault: race writes in warp 0
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  __shared__ float s[64];
  float t = 0.0f;
  for (int i = 0; i < 4; ++i) {
    s[threadIdx.x] = x[threadIdx.x + i];  // fault
    __syncthreads();
    t += s[63 - threadIdx.x];
  }
  y[threadIdx.x] = t;
}
