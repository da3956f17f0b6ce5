// fault: race cp.async in line 6 is still filling
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  __shared__ float s[2][64];
  for (int i = 0; i < 2; ++i) {
    unsigned to = (unsigned)__cvta_generic_to_shared(&s[i][threadIdx.x]);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(to), "l"(x + 64 * i + threadIdx.x) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  asm volatile("cp.async.wait_group 1;" ::: "memory");
  __syncthreads();
  y[threadIdx.x] = s[0][63 - threadIdx.x] + s[1][threadIdx.x];  // fault
}
