// expect: correct
// launch: grid=(ceil_div(n, 256)) block=(256)
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int big = 1'000'000 + 0b1 + 0x1p3f;
  if (i < n && big > 0) z[i] = x[i] + y[i] + (u8"a"[0] - 'a') + ('"' - L'"');
}
