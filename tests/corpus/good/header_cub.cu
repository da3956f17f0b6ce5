// expect: compiles
// timeout: 120
#include <cub/block/block_reduce.cuh>
#include <cub/warp/warp_reduce.cuh>
extern "C" __global__ void kernel(float* y) {
  using Block = cub::BlockReduce<float, 128>;
  using Warp = cub::WarpReduce<float>;
  __shared__ typename Block::TempStorage block;
  __shared__ typename Warp::TempStorage warp[4];
  float sum = Block(block).Sum(y[threadIdx.x]);
  y[threadIdx.x] = Warp(warp[threadIdx.x / 32]).Sum(sum);
}
