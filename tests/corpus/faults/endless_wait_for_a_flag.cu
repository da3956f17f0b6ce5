// fault: timeout hottest loop is at line
// run: grid=2 block=32
__device__ volatile int flag;
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  if (blockIdx.x == 0) while (flag == 0) {}  // fault
  y[blockIdx.x * 32 + threadIdx.x] = x[threadIdx.x];
}
