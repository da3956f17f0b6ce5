// expect: compiles
// timeout: 120
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void kernel(float* y) {
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<32>(block);
  float v = y[block.thread_rank()];
  for (int d = tile.size() / 2; d > 0; d /= 2) v += tile.shfl_down(v, d);
  block.sync();
  if (tile.thread_rank() == 0) y[0] = v;
}
