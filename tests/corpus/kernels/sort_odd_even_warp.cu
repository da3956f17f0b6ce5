// task: row_sort
// launch: grid=(rows) block=(32) shared=4 * cols
extern "C" __global__ void kernel(const int* x, int* y, int rows, int cols) {
  extern __shared__ int s[];
  for (int i = threadIdx.x; i < cols; i += 32) s[i] = x[blockIdx.x * cols + i];
  __syncwarp();
  for (int round = 0; round < cols; ++round) {
    for (int i = 2 * threadIdx.x + round % 2; i + 1 < cols; i += 64) {
      int a = s[i], b = s[i + 1];
      s[i] = min(a, b);
      s[i + 1] = max(a, b);
    }
    __syncwarp();
  }
  for (int i = threadIdx.x; i < cols; i += 32) y[blockIdx.x * cols + i] = s[i];
}
