// fault: race reads in another of its warp, no __syncwarp() between them
// run: grid=1 block=32
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  __shared__ float s[32];
  unsigned to = (unsigned)__cvta_generic_to_shared(s + threadIdx.x);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(to), "l"(x + threadIdx.x) : "memory");
  asm volatile("cp.async.wait_all;" ::: "memory");
  y[threadIdx.x] = s[threadIdx.x ^ 1];  // fault
}
