// fault: uninitialised local array
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  float pair[2];
  pair[n & 1] = x[threadIdx.x];
  y[threadIdx.x] = pair[(threadIdx.x & 1) | (n & 1)];  // fault
}
