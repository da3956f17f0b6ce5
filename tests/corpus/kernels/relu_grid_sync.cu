// task: relu
// launch: grid=(ceil_div(n, 256)) block=(256)
#include <cooperative_groups.h>
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  auto grid = cooperative_groups::this_grid();
  int i = grid.thread_rank();
  if (i < n) y[i] = x[n - 1 - i];
  grid.sync();
  float v = i < n ? y[n - 1 - i] : 0.0f;
  grid.sync();
  if (i < n) y[i] = fmaxf(v, 0.0f);
}
