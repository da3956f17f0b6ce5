// fault: race no barrier between them
// run: grid=1 block=256
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  __shared__ float s[256];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  for (int d = 128; d > 0; d >>= 1)
    if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];  // fault
  if (threadIdx.x == 0) y[0] = s[0];
}
