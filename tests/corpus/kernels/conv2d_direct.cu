// task: conv_2d
// launch: grid=(ceil_div(cols - taps + 1, 16), ceil_div(rows - taps + 1, 8)) block=(16, 8)
extern "C" __global__ void kernel(const float* x, const float* w, float* y, int rows, int cols, int taps) {
  int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y, wide = cols - taps + 1;
  if (r > rows - taps || c >= wide) return;
  float sum = 0.0f;
  for (int i = 0; i < taps; ++i)
    for (int j = 0; j < taps; ++j) sum += x[(r + i) * cols + c + j] * w[i * taps + j];
  y[r * wide + c] = sum;
}
