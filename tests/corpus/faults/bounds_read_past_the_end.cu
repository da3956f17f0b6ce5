// fault: memory_fault read of 4 bytes: element 1024 of in0[1024]
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  y[threadIdx.x] = x[n - 10 + threadIdx.x];  // fault
}
