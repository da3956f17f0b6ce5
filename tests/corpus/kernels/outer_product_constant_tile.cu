// task: outer_product
// launch: grid=(ceil_div(cols, 32), ceil_div(rows, 8)) block=(32, 8)
extern "C" __global__ void kernel(const float* u, const float* v, float* y, int rows, int cols) {
  __shared__ float us[8], vs[32];
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y;
  if (threadIdx.y == 0 && c < cols) vs[threadIdx.x] = v[c];
  if (threadIdx.x == 0 && r < rows) us[threadIdx.y] = u[r];
  __syncthreads();
  if (r < rows && c < cols) y[r * cols + c] = us[threadIdx.y] * vs[threadIdx.x];
}
