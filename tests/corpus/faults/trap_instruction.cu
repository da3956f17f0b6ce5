// fault: trap ran a trap
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  if (x[threadIdx.x] == 40.0f) __trap();  // fault
  y[threadIdx.x] = 1.0f;
}
