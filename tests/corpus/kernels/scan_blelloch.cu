// task: exclusive_scan
// launch: grid=(1) block=(128)
extern "C" __global__ void kernel(const unsigned* x, unsigned* y, int n) {
  __shared__ unsigned s[256];
  int t = threadIdx.x;
  unsigned carry = 0;
  for (int base = 0; base < n; base += 256) {
    s[2 * t] = base + 2 * t < n ? x[base + 2 * t] : 0;
    s[2 * t + 1] = base + 2 * t + 1 < n ? x[base + 2 * t + 1] : 0;
    int offset = 1;
    for (int d = 128; d > 0; d >>= 1) {
      __syncthreads();
      if (t < d) s[offset * (2 * t + 2) - 1] += s[offset * (2 * t + 1) - 1];
      offset *= 2;
    }
    __syncthreads();
    unsigned total = s[255];
    __syncthreads();
    if (t == 0) s[255] = 0;
    for (int d = 1; d < 256; d *= 2) {
      offset >>= 1;
      __syncthreads();
      if (t < d) {
        unsigned left = s[offset * (2 * t + 1) - 1];
        s[offset * (2 * t + 1) - 1] = s[offset * (2 * t + 2) - 1];
        s[offset * (2 * t + 2) - 1] += left;
      }
    }
    __syncthreads();
    if (base + 2 * t < n) y[base + 2 * t] = carry + s[2 * t];
    if (base + 2 * t + 1 < n) y[base + 2 * t + 1] = carry + s[2 * t + 1];
    carry += total;
    __syncthreads();
  }
}
