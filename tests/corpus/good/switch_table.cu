// expect: correct
// launch: grid=(ceil_div(n, 256)) block=(256)
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float a = x[min(i, n - 1)], b = y[min(i, n - 1)], r;
  switch (i & 7) {
    case 0: r = a + b; break; case 1: r = b + a; break; case 2: r = a - -b; break;
    case 3: r = -(-a - b); break; case 4: r = fmaf(a, 1, b); break; case 5: r = a + 1 * b; break;
    default: r = a + b;
  }
  if (i < n) z[i] = r;
}
