// fault: barrier mask 0xf lacks it
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  y[threadIdx.x] = __shfl_sync(0xfu, x[threadIdx.x], 0);  // fault
}
