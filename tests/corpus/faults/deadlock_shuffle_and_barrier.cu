// fault: barrier deadlock, threads wait for ever
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  float v = x[threadIdx.x];
  if (threadIdx.x < 16) v = __shfl_xor_sync(~0u, v, 1);  // fault
  else __syncthreads();
  y[threadIdx.x] = v;
}
