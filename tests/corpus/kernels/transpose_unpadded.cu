// task: transpose
// launch: grid=(ceil_div(cols, 32), ceil_div(rows, 32)) block=(32, 8)
extern "C" __global__ void kernel(const float* x, float* y, int rows, int cols) {
  __shared__ float tile[32][32];
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8)
    if (c < cols && r + i < rows) tile[threadIdx.y + i][threadIdx.x] = x[(r + i) * cols + c];
  __syncthreads();
  c = blockIdx.y * 32 + threadIdx.x;
  r = blockIdx.x * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8)
    if (c < rows && r + i < cols) y[(r + i) * rows + c] = tile[threadIdx.x][threadIdx.y + i];
}
