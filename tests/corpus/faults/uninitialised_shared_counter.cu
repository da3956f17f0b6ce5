// fault: uninitialised byte 0 of shared array count
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  __shared__ int count;
  if (x[threadIdx.x] > 10.0f) atomicAdd(&count, 1);  // fault
  __syncthreads();
  y[threadIdx.x] = count;
}
