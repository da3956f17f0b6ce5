// fault: race shared race on byte 0 of shared array bar
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  __shared__ unsigned long long bar;
  unsigned p = (unsigned)__cvta_generic_to_shared(&bar);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(p) : "memory");
  asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" :: "r"(p) : "memory");  // fault
  y[threadIdx.x] = x[threadIdx.x];
}
