// task: matmul
// tolerance: 1e-2 6e-2
// regimes: signed zero
// launch: grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(32)
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void kernel(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ __align__(32) float as[16 * 8], bs[8 * 16], cs[256];
  int t = threadIdx.x, row0 = blockIdx.y * 16, col0 = blockIdx.x * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 8, float> fc;
  wmma::fill_fragment(fc, 0.0f);
  for (int base = 0; base < k; base += 8) {
    for (int i = t; i < 128; i += 32) {
      as[i] = row0 + i / 8 < m && base + i % 8 < k ? a[(row0 + i / 8) * k + base + i % 8] : 0.0f;
      bs[i] = base + i / 16 < k && col0 + i % 16 < n ? b[(base + i / 16) * n + col0 + i % 16] : 0.0f;
    }
    __syncwarp();
    wmma::load_matrix_sync(fa, as, 8);
    wmma::load_matrix_sync(fb, bs, 16);
    for (int i = 0; i < fa.num_elements; ++i) fa.x[i] = wmma::__float_to_tf32(fa.x[i]);
    for (int i = 0; i < fb.num_elements; ++i) fb.x[i] = wmma::__float_to_tf32(fb.x[i]);
    wmma::mma_sync(fc, fa, fb, fc);
    __syncwarp();
  }
  wmma::store_matrix_sync(cs, fc, 16, wmma::mem_row_major);
  __syncwarp();
  for (int i = t; i < 256; i += 32)
    if (row0 + i / 16 < m && col0 + i % 16 < n) c[(row0 + i / 16) * n + col0 + i % 16] = cs[i];
}
