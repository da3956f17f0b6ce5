// task: hash32
// launch: grid=(ceil_div(n, 64)) block=(64)
extern "C" __global__ void kernel(const unsigned* x, unsigned* y, int n) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= n) return;
  unsigned v = x[i];
#pragma unroll
  for (int round = 0; round < 2; ++round) v = (v ^ v >> 16) * 0x45d9f3bu;
  y[i] = v ^ v >> 16;
}
