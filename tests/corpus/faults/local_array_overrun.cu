// fault: memory_fault of local array
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  float a[8];
  for (int i = 0; i < 8; ++i) a[i] = x[i];
  y[threadIdx.x] = a[(int)x[threadIdx.x]];  // fault
}
