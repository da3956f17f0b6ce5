// fault: race cp.async in line 4 is still filling
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  __shared__ __align__(16) float s[256];
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(s + 4 * threadIdx.x)), "l"(x + 4 * threadIdx.x) : "memory");
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x];  // fault
}
