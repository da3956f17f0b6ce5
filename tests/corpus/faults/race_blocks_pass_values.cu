// fault: race blocks are not ordered
// run: grid=4 block=64
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  int i = blockIdx.x * 64 + threadIdx.x;
  y[i] = x[i];
  __syncthreads();
  y[i + 256] = y[255 - i];  // fault
}
