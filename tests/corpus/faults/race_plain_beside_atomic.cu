// fault: race shared race on byte 0 of shared array count
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  if (threadIdx.x < 32) atomicAdd(&count, 1);
  else count = count + 1;  // fault
  __syncthreads();
  y[threadIdx.x] = count;
}
