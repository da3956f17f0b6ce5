// task: row_sort
// launch: grid=(rows) block=(64)
extern "C" __global__ void kernel(const int* x, int* y, int rows, int cols) {
  const int* row = x + blockIdx.x * cols;
  for (int i = threadIdx.x; i < cols; i += 64) {
    int rank = 0, v = row[i];
    for (int j = 0; j < cols; ++j) rank += row[j] < v || (row[j] == v && j < i);
    y[blockIdx.x * cols + rank] = v;
  }
}
