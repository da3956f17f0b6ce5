// task: max_pool_2d
// launch: grid=(ceil_div(cols // 2, 32), ceil_div(rows // 2, 4)) block=(32, 4)
extern "C" __global__ void kernel(const float* x, float* y, int rows, int cols) {
  int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
  if (c >= cols / 2 || r >= rows / 2) return;
  const float* p = x + 2 * r * cols + 2 * c;
  y[r * (cols / 2) + c] = fmaxf(fmaxf(p[0], p[1]), fmaxf(p[cols], p[cols + 1]));
}
