// task: bit_totals
// launch: clear grid=(1) block=(32) args=(y)
// launch: add grid=(ceil_div(n, 256)) block=(64) args=(x, y, n)
extern "C" __global__ void clear(unsigned* y) {
  if (threadIdx.x < 6) y[threadIdx.x] = threadIdx.x == 1 || threadIdx.x == 3 ? 0xffffffffu : 0u;
}
template <typename F> __device__ void update(unsigned* p, unsigned v, F f) {
  unsigned old = *(volatile unsigned*)p, seen;
  while ((seen = atomicCAS(p, old, f(old, v))) != old) old = seen;
}
extern "C" __global__ void add(const unsigned* x, unsigned* y, int n) {
  unsigned total[6] = {0, ~0u, 0, ~0u, 0, 0};
  for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += gridDim.x * 64) {
    unsigned v = x[i];
    total[0] += v;
    total[1] = min(total[1], v);
    total[2] = max(total[2], v);
    total[3] &= v;
    total[4] |= v;
    total[5] ^= v;
  }
  update(y, total[0], [](unsigned a, unsigned b) { return a + b; });
  update(y + 1, total[1], [](unsigned a, unsigned b) { return min(a, b); });
  update(y + 2, total[2], [](unsigned a, unsigned b) { return max(a, b); });
  update(y + 3, total[3], [](unsigned a, unsigned b) { return a & b; });
  update(y + 4, total[4], [](unsigned a, unsigned b) { return a | b; });
  update(y + 5, total[5], [](unsigned a, unsigned b) { return a ^ b; });
}
