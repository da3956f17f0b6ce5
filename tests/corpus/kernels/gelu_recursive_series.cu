// task: gelu
// launch: grid=(ceil_div(n, 32)) block=(32)
__device__ __noinline__ double power(double base, int count) {
  if (count == 0) return 1.0;
  double half = power(base, count / 2);
  return count % 2 ? half * half * base : half * half;
}
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  int i = blockIdx.x * 32 + threadIdx.x;
  if (i >= n) return;
  double v = x[i], u = 0.7978845608028654 * (v + 0.044715 * power(v, 3));
  y[i] = (float)(0.5 * v * (1.0 + tanh(u)));
}
