// expect: compiles
// timeout: 120
#include <cub/cub.cuh>
extern "C" __global__ void kernel(float* y) {
  using Load = cub::BlockLoad<float, 64, 2, cub::BLOCK_LOAD_TRANSPOSE>;
  using Scan = cub::BlockScan<float, 64>;
  __shared__ typename Load::TempStorage load;
  __shared__ typename Scan::TempStorage scan;
  float v[2];
  Load(load).Load(y, v);
  __syncthreads();
  Scan(scan).InclusiveSum(v, v);
  y[threadIdx.x] = v[0] + v[1];
}
