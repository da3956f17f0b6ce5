// task: matmul
// tolerance: 1e-2 6e-2
// regimes: signed zero
// launch: grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(64)
#include <cuda_fp16.h>
__device__ unsigned window(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void kernel(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ __align__(16) __half as[16][24], bs[16][24];
  int t = threadIdx.x, warp = t / 32, lane = t % 32, row0 = blockIdx.y * 16, col0 = blockIdx.x * 16;
  float acc[4] = {};
  for (int base = 0; base < k; base += 16) {
    for (int i = t; i < 256; i += 64) {
      int r = i / 16, q = i % 16;
      as[r][q] = __float2half(row0 + r < m && base + q < k ? a[(row0 + r) * k + base + q] : 0.0f);
      bs[r][q] = __float2half(base + r < k && col0 + q < n ? b[(base + r) * n + col0 + q] : 0.0f);
    }
    __syncthreads();
    unsigned x[4], y[2];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(window(&as[lane % 16][lane / 16 * 8])));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(y[0]), "=r"(y[1])
                 : "r"(window(&bs[lane % 16][warp * 8])));
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i) {
    int r = row0 + lane / 4 + 8 * (i / 2), q = col0 + warp * 8 + lane % 4 * 2 + i % 2;
    if (r < m && q < n) c[r * n + q] = acc[i];
  }
}
