// fault: uninitialised local array
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  float a[8];
  for (int i = 0; i < 8; ++i)
    if (x[i] > 2.0f) a[i] = x[i];
  y[threadIdx.x] = a[threadIdx.x & 7];  // fault
}
