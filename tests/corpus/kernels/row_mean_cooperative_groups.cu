// task: row_mean
// launch: grid=(rows) block=(64)
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void kernel(const float* x, float* y, int rows, int cols) {
  __shared__ float part[2];
  auto block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  float sum = 0.0f;
  for (int c = block.thread_rank(); c < cols; c += block.size()) sum += x[blockIdx.x * cols + c];
  sum = cg::reduce(warp, sum, cg::plus<float>());
  if (warp.thread_rank() == 0) part[warp.meta_group_rank()] = sum;
  block.sync();
  if (block.thread_rank() == 0) y[blockIdx.x] = (part[0] + part[1]) / cols;
}
