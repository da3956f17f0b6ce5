// fault: race is still filling
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  __shared__ float s[64];
  unsigned to = (unsigned)__cvta_generic_to_shared(s + threadIdx.x);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(to), "l"(x + threadIdx.x) : "memory");
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  y[threadIdx.x] = s[63 - threadIdx.x];  // fault
}
