// task: conv_2d
// launch: grid=(rows - taps + 1) block=(64) shared=4 * taps * taps
extern "C" __global__ void kernel(const float* x, const float* w, float* y, int rows, int cols, int taps) {
  extern __shared__ float ws[];
  for (int i = threadIdx.x; i < taps * taps; i += 64) ws[i] = w[i];
  __syncthreads();
  int wide = cols - taps + 1;
  for (int c = threadIdx.x; c < wide; c += 64) {
    float sum = 0.0f;
    for (int p = 0; p < taps * taps; ++p) sum = fmaf(x[(blockIdx.x + p / taps) * cols + c + p % taps], ws[p], sum);
    y[blockIdx.x * wide + c] = sum;
  }
}
