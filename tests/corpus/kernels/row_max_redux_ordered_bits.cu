// task: row_max
// launch: grid=(rows) block=(32)
extern "C" __global__ void kernel(const float* x, float* y, int rows, int cols) {
  int most = 0x80000000;
  for (int c = threadIdx.x; c < cols; c += 32) {
    int bits = __float_as_int(x[blockIdx.x * cols + c]);
    most = max(most, bits < 0 ? bits ^ 0x7fffffff : bits);
  }
  most = __reduce_max_sync(0xffffffffu, most);
  if (threadIdx.x == 0) y[blockIdx.x] = __int_as_float(most < 0 ? most ^ 0x7fffffff : most);
}
