// fault: barrier deadlock, threads wait for ever
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  if (threadIdx.x < 32) asm volatile("bar.sync 1;");  // fault
  else asm volatile("bar.sync 2;");
  y[threadIdx.x] = x[threadIdx.x];
}
