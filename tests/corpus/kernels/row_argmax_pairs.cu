// task: row_argmax
// launch: grid=(rows) block=(128)
struct Best { float value; int index; };
__device__ Best better(Best a, Best b) {
  return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}
extern "C" __global__ void kernel(const float* x, int* y, int rows, int cols) {
  __shared__ Best part[4];
  Best best = {-INFINITY, 0x7fffffff};
  for (int c = threadIdx.x; c < cols; c += 128) best = better(best, Best{x[blockIdx.x * cols + c], c});
  for (int d = 16; d; d /= 2)
    best = better(best, Best{__shfl_down_sync(~0u, best.value, d), __shfl_down_sync(~0u, best.index, d)});
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = best;
  __syncthreads();
  if (threadIdx.x == 0) y[blockIdx.x] = better(better(part[0], part[1]), better(part[2], part[3])).index;
}
