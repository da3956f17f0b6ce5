// task: bit_totals
// launch: grid=(1) block=(32)
extern "C" __global__ void kernel(const unsigned* x, unsigned* y, int n) {
  unsigned sum = 0, low = ~0u, high = 0, all = ~0u, any = 0, odd = 0;
  for (int i = threadIdx.x; i < n; i += 32) {
    sum += x[i];
    low = min(low, x[i]);
    high = max(high, x[i]);
    all &= x[i];
    any |= x[i];
    odd ^= x[i];
  }
  sum = __reduce_add_sync(~0u, sum);
  low = __reduce_min_sync(~0u, low);
  high = __reduce_max_sync(~0u, high);
  all = __reduce_and_sync(~0u, all);
  any = __reduce_or_sync(~0u, any);
  odd = __reduce_xor_sync(~0u, odd);
  unsigned lanes[6] = {sum, low, high, all, any, odd};
  if (threadIdx.x < 6) y[threadIdx.x] = lanes[threadIdx.x];
}
