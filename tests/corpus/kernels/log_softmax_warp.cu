// task: log_softmax
// launch: grid=(ceil_div(rows, 8)) block=(32, 8)
template <typename F> __device__ float all_lanes(float v, F f) {
#pragma unroll
  for (int d = 1; d < 32; d *= 2) v = f(v, __shfl_xor_sync(0xffffffffu, v, d));
  return v;
}
extern "C" __global__ void kernel(const float* x, float* y, int rows, int cols) {
  int r = blockIdx.x * 8 + threadIdx.y, lane = threadIdx.x;
  if (r >= rows) return;
  float most = -INFINITY, sum = 0.0f;
  for (int c = lane; c < cols; c += 32) most = fmaxf(most, x[r * cols + c]);
  most = all_lanes(most, [](float a, float b) { return fmaxf(a, b); });
  for (int c = lane; c < cols; c += 32) sum += expf(x[r * cols + c] - most);
  sum = all_lanes(sum, [](float a, float b) { return a + b; });
  float shift = logf(sum);
  for (int c = lane; c < cols; c += 32) y[r * cols + c] = x[r * cols + c] - most - shift;
}
