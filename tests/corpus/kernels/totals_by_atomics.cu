// task: bit_totals
// launch: clear grid=(1) block=(32) args=(y)
// launch: add grid=(ceil_div(n, 128)) block=(128) args=(x, y, n)
extern "C" __global__ void clear(unsigned* y) {
  if (threadIdx.x < 6) y[threadIdx.x] = threadIdx.x == 1 || threadIdx.x == 3 ? 0xffffffffu : 0u;
}
extern "C" __global__ void add(const unsigned* x, unsigned* y, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i >= n) return;
  atomicAdd(y, x[i]);
  atomicMin(y + 1, x[i]);
  atomicMax(y + 2, x[i]);
  atomicAnd(y + 3, x[i]);
  atomicOr(y + 4, x[i]);
  atomicXor(y + 5, x[i]);
}
