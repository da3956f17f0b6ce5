// fault: race reads in another of its warp, no __syncwarp() between them
// run: grid=1 block=32
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  __shared__ float s[32];
  s[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = s[31 - threadIdx.x];  // fault
}
