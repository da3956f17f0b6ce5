// fault: uninitialised element 64 of out1[1024]
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  y[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = y[threadIdx.x] + y[threadIdx.x + 64];  // fault
}
