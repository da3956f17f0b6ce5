// task: row_sum
// launch: grid=(rows) block=(64)
#include <cub/block/block_reduce.cuh>
extern "C" __global__ void kernel(const float* x, float* y, int rows, int cols) {
  using Reduce = cub::BlockReduce<float, 64>;
  __shared__ typename Reduce::TempStorage storage;
  float sum = 0.0f;
  for (int c = threadIdx.x; c < cols; c += 64) sum += x[blockIdx.x * cols + c];
  sum = Reduce(storage).Sum(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
