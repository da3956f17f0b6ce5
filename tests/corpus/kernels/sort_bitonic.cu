// task: row_sort
// launch: grid=(rows) block=(128) shared=4 * 256
extern "C" __global__ void kernel(const int* x, int* y, int rows, int cols) {
  extern __shared__ int s[];
  int t = threadIdx.x;
  for (int i = t; i < 256; i += 128) s[i] = i < cols ? x[blockIdx.x * cols + i] : 0x7fffffff;
  for (int size = 2; size <= 256; size *= 2)
    for (int stride = size / 2; stride; stride /= 2) {
      __syncthreads();
      int i = 2 * t - (t & (stride - 1)), j = i + stride;
      bool up = (i & size) == 0;
      int a = s[i], b = s[j];
      if ((a > b) == up) { s[i] = b; s[j] = a; }
    }
  __syncthreads();
  for (int i = t; i < cols; i += 128) y[blockIdx.x * cols + i] = s[i];
}
