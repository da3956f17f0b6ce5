// fault: race writes in warp 1
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  __shared__ int last;
  last = threadIdx.x;  // fault
  __syncthreads();
  y[threadIdx.x] = last;
}
