// fault: barrier mask 0xffff0000 lacks it
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  float v = x[threadIdx.x];
  if (threadIdx.x % 32 < 16) v += __shfl_xor_sync(0xffff0000u, v, 1);  // fault
  y[threadIdx.x] = v;
}
