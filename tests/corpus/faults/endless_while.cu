// fault: timeout hottest loop is at line
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  volatile float* v = y;
  v[threadIdx.x] = 0.0f;
  while (v[threadIdx.x] < 1.0f) v[threadIdx.x] = 0.0f;  // fault
}
