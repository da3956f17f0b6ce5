// task: scale_rows
// launch: grid=(rows) block=(32)
extern "C" __global__ void kernel(const float* x, const float* scale, float* y, int rows, int cols) {
  float s = 0.0f;
  if (threadIdx.x == 0) s = scale[blockIdx.x];
  s = __shfl_sync(0xffffffffu, s, 0);
  for (int c = threadIdx.x; c < cols; c += 32) y[blockIdx.x * cols + c] = x[blockIdx.x * cols + c] * s;
}
