// fault: barrier mask 0x1 lacks it
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  unsigned votes = __ballot_sync(threadIdx.x == 0 ? ~0u : 1u, x[threadIdx.x] > 3.0f);  // fault
  y[threadIdx.x] = votes;
}
