// fault: timeout hottest loop is at line
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  float sum = x[0];
  for (int i = 0; i < n; i += (int)x[0]) sum += x[i];  // fault
  y[threadIdx.x] = sum;
}
