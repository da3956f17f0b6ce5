// fault: memory_fault atomic of 4 bytes: element 1024 of out1[1024]
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  y[threadIdx.x] = 0.0f;
  __syncthreads();
  atomicAdd(y + n, x[0]);  // fault
}
