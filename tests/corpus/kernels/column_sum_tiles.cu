// task: column_sum
// launch: grid=(ceil_div(cols, 32)) block=(32, 8)
extern "C" __global__ void kernel(const float* x, float* y, int rows, int cols) {
  __shared__ float s[8][33];
  int c = blockIdx.x * 32 + threadIdx.x;
  float sum = 0.0f;
  for (int r = threadIdx.y; c < cols && r < rows; r += 8) sum += x[r * cols + c];
  s[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && c < cols) {
    for (int i = 1; i < 8; ++i) sum += s[i][threadIdx.x];
    y[c] = sum;
  }
}
