// task: matvec
// launch: grid=(ceil_div(rows, 4)) block=(128)
extern "C" __global__ void kernel(const float* __restrict__ a, const float* __restrict__ x, float* y, int rows, int cols) {
  int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x & 31;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int c = lane; c < cols; c += 32) sum = fmaf(__ldg(a + row * cols + c), __ldg(x + c), sum);
#pragma unroll
  for (int d = 16; d; d >>= 1) sum += __shfl_down_sync(0xffffffff, sum, d);
  if (lane == 0) y[row] = sum;
}
