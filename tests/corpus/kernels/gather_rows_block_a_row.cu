// task: gather_rows
// launch: grid=(rows) block=(64)
extern "C" __global__ void kernel(const float* table, const int* index, float* y, int entries, int rows, int cols) {
  const float* from = table + (long long)index[blockIdx.x] * cols;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) y[blockIdx.x * cols + c] = from[c];
}
