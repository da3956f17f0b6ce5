// fault: barrier deadlock, threads wait for ever
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  if (threadIdx.x < 32) asm volatile("bar.sync 1, 96;");  // fault
  y[threadIdx.x] = x[threadIdx.x];
}
