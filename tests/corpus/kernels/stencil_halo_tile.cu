// task: stencil_2d
// launch: grid=(ceil_div(cols, 16), ceil_div(rows, 8)) block=(16, 8)
extern "C" __global__ void kernel(const float* x, float* y, int rows, int cols) {
  __shared__ float s[10][18];
  int tx = threadIdx.x, ty = threadIdx.y, c0 = blockIdx.x * 16 - 1, r0 = blockIdx.y * 8 - 1;
  for (int i = ty * 16 + tx; i < 180; i += 128) {
    int r = r0 + i / 18, c = c0 + i % 18;
    s[i / 18][i % 18] = r >= 0 && r < rows && c >= 0 && c < cols ? x[r * cols + c] : 0.0f;
  }
  __syncthreads();
  int r = r0 + ty + 1, c = c0 + tx + 1;
  if (r < rows && c < cols)
    y[r * cols + c] = (4.0f * s[ty + 1][tx + 1] + s[ty][tx + 1] + s[ty + 2][tx + 1] + s[ty + 1][tx] + s[ty + 1][tx + 2]) / 8.0f;
}
