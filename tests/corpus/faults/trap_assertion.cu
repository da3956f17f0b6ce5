// fault: trap assertion `x[threadIdx.x] < 40.0f` failed
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  assert(x[threadIdx.x] < 40.0f);  // fault
  y[threadIdx.x] = 1.0f;
}
