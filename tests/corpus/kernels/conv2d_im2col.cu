// task: conv_2d
// scratch: patches float (rows - taps + 1) * (cols - taps + 1) * taps * taps
// launch: unfold grid=(ceil_div((rows - taps + 1) * (cols - taps + 1), 64)) block=(64) args=(x, patches, rows, cols, taps)
// launch: multiply grid=(ceil_div((rows - taps + 1) * (cols - taps + 1), 4)) block=(128) args=(patches, w, y, rows, cols, taps)
extern "C" __global__ void unfold(const float* x, float* patches, int rows, int cols, int taps) {
  int i = blockIdx.x * 64 + threadIdx.x, wide = cols - taps + 1, count = wide * (rows - taps + 1);
  if (i >= count) return;
  for (int p = 0; p < taps * taps; ++p) patches[p * count + i] = x[(i / wide + p / taps) * cols + i % wide + p % taps];
}
extern "C" __global__ void multiply(const float* patches, const float* w, float* y, int rows, int cols, int taps) {
  int i = blockIdx.x * 4 + threadIdx.x / 32, count = (cols - taps + 1) * (rows - taps + 1);
  if (i >= count) return;
  float sum = 0.0f;
  for (int p = threadIdx.x % 32; p < taps * taps; p += 32) sum += patches[p * count + i] * w[p];
  for (int d = 16; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) y[i] = sum;
}
