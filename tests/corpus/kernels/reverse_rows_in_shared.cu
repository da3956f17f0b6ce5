// task: reverse_rows
// launch: grid=(rows) block=(128) shared=4 * cols
extern "C" __global__ void kernel(const float* x, float* y, int rows, int cols) {
  extern __shared__ float s[];
  for (int c = threadIdx.x; c < cols; c += 128) s[cols - 1 - c] = x[blockIdx.x * cols + c];
  __syncthreads();
  for (int c = threadIdx.x; c < cols; c += 128) y[blockIdx.x * cols + c] = s[c];
}
