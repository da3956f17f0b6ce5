// task: matmul
// launch: grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16)
__device__ void copy(float* to, const float* of, bool take) {
  unsigned address = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(of), "r"(take ? 4 : 0) : "memory");
}
extern "C" __global__ void kernel(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float as[3][16][16], bs[3][16][16];
  int tx = threadIdx.x, ty = threadIdx.y, col = blockIdx.x * 16 + tx, row = blockIdx.y * 16 + ty;
  int tiles = (k + 15) / 16;
  auto load = [&](int tile) {
    int base = tile * 16, stage = tile % 3;
    bool in_a = tile < tiles && row < m && base + tx < k, in_b = tile < tiles && col < n && base + ty < k;
    copy(&as[stage][ty][tx], in_a ? a + row * k + base + tx : a, in_a);
    copy(&bs[stage][ty][tx], in_b ? b + (base + ty) * n + col : b, in_b);
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  load(0);
  load(1);
  float sum = 0.0f;
  for (int tile = 0; tile < tiles; ++tile) {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    load(tile + 2);
    for (int i = 0; i < 16; ++i) sum += as[tile % 3][ty][i] * bs[tile % 3][i][tx];
  }
  if (row < m && col < n) c[row * n + col] = sum;
}
