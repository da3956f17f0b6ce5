// expect: correct
// launch: grid=(ceil_div(n, 256)) block=(256)
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm volatile("{ .reg .pred p; setp.eq.u32 p, %0, 99; @p bra DONE_1; DONE_1: }" :: "r"(lane));
  if (i < n) z[i] = x[i] + y[i];
}
