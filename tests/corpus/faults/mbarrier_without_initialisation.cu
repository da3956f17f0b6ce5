// fault: uninitialised shared read of 8 bytes
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  __shared__ unsigned long long bar;
  asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" :: "r"((unsigned)__cvta_generic_to_shared(&bar)));  // fault
  y[threadIdx.x] = x[threadIdx.x];
}
