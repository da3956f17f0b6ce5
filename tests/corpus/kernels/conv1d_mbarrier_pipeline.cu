// task: conv1d
// launch: grid=(ceil_div(n - taps + 1, 64)) block=(64) shared=4 * (64 + taps)
extern "C" __global__ void kernel(const float* x, const float* weight, float* y, int n, int taps) {
  extern __shared__ float s[];
  __shared__ unsigned long long barrier;
  unsigned place = (unsigned)__cvta_generic_to_shared(&barrier);
  int t = threadIdx.x, base = blockIdx.x * 64;
  if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(place) : "memory");
  __syncthreads();
  for (int i = t; i < 64 + taps && base + i < n; i += 64) {
    unsigned to = (unsigned)__cvta_generic_to_shared(s + i);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(x + base + i) : "memory");
  }
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(place) : "memory");
  unsigned done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(place) : "memory");
  if (base + t > n - taps) return;
  float sum = 0.0f;
  for (int i = 0; i < taps; ++i) sum += s[t + i] * weight[i];
  y[base + t] = sum;
}
