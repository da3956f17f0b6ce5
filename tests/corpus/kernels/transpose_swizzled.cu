// task: transpose
// launch: grid=(ceil_div(cols, 16), ceil_div(rows, 16)) block=(256)
extern "C" __global__ void kernel(const float* x, float* y, int rows, int cols) {
  __shared__ float tile[256];
  int i = threadIdx.x / 16, j = threadIdx.x % 16, r = blockIdx.y * 16 + i, c = blockIdx.x * 16 + j;
  if (r < rows && c < cols) tile[i * 16 + (j ^ i)] = x[r * cols + c];
  __syncthreads();
  r = blockIdx.x * 16 + i;
  c = blockIdx.y * 16 + j;
  if (r < cols && c < rows) y[r * rows + c] = tile[j * 16 + (i ^ j)];
}
