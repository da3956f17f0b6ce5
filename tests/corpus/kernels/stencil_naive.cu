// task: stencil_2d
// launch: grid=(ceil_div(cols, 16), ceil_div(rows, 16)) block=(16, 16)
extern "C" __global__ void kernel(const float* x, float* y, int rows, int cols) {
  int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y, i = r * cols + c;
  if (r >= rows || c >= cols) return;
  float sum = 4.0f * x[i];
  if (r > 0) sum += x[i - cols];
  if (r < rows - 1) sum += x[i + cols];
  if (c > 0) sum += x[i - 1];
  if (c < cols - 1) sum += x[i + 1];
  y[i] = sum * 0.125f;
}
