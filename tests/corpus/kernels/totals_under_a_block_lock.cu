// task: bit_totals
// launch: clear grid=(1) block=(32) args=(y)
// launch: add grid=(ceil_div(n, 256)) block=(64) args=(x, y, n)
__device__ int lock;
extern "C" __global__ void clear(unsigned* y) {
  if (threadIdx.x < 6) y[threadIdx.x] = threadIdx.x == 1 || threadIdx.x == 3 ? 0xffffffffu : 0u;
}
extern "C" __global__ void add(const unsigned* x, volatile unsigned* y, int n) {
  __shared__ unsigned s[256];
  for (int i = threadIdx.x; i < 256; i += 64) s[i] = blockIdx.x * 256 + i < n ? x[blockIdx.x * 256 + i] : 0;
  __syncthreads();
  if (threadIdx.x) return;
  unsigned sum = 0, low = ~0u, high = 0, all = ~0u, any = 0, odd = 0;
  for (int i = 0; i < 256 && blockIdx.x * 256 + i < n; ++i) {
    unsigned v = s[i];
    sum += v;
    low = min(low, v);
    high = max(high, v);
    all &= v;
    any |= v;
    odd ^= v;
  }
  while (atomicCAS(&lock, 0, 1) != 0) {}
  __threadfence();
  y[0] += sum;
  y[1] = min(y[1], low);
  y[2] = max(y[2], high);
  y[3] &= all;
  y[4] |= any;
  y[5] ^= odd;
  __threadfence();
  atomicExch(&lock, 0);
}
