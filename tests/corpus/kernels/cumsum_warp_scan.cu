// task: row_cumsum
// launch: grid=(rows) block=(32)
extern "C" __global__ void kernel(const float* x, float* y, int rows, int cols) {
  float carry = 0.0f;
  int lane = threadIdx.x;
  for (int base = 0; base < cols; base += 32) {
    float v = base + lane < cols ? x[blockIdx.x * cols + base + lane] : 0.0f;
    for (int d = 1; d < 32; d <<= 1) {
      float u = __shfl_up_sync(0xffffffff, v, d);
      v = lane >= d ? v + u : v;
    }
    if (base + lane < cols) y[blockIdx.x * cols + base + lane] = carry + v;
    carry += __shfl_sync(0xffffffff, v, 31);
  }
}
