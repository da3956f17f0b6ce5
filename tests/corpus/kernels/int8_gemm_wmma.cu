// task: int8_matmul
// launch: grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(32)
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void kernel(const int* a, const int* b, int* c, int m, int n, int k) {
  __shared__ __align__(32) signed char as[256], bs[256];
  __shared__ __align__(32) int cs[256];
  int t = threadIdx.x, row0 = blockIdx.y * 16, col0 = blockIdx.x * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, int> fc;
  wmma::fill_fragment(fc, 0);
  for (int base = 0; base < k; base += 16) {
    for (int i = t; i < 256; i += 32) {
      int r = i / 16, q = i % 16;
      as[i] = row0 + r < m && base + q < k ? a[(row0 + r) * k + base + q] : 0;
      bs[q * 16 + r] = base + r < k && col0 + q < n ? b[(base + r) * n + col0 + q] : 0;
    }
    __syncwarp();
    wmma::load_matrix_sync(fa, as, 16);
    wmma::load_matrix_sync(fb, bs, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    __syncwarp();
  }
  wmma::store_matrix_sync(cs, fc, 16, wmma::mem_row_major);
  __syncwarp();
  for (int i = t; i < 256; i += 32)
    if (row0 + i / 16 < m && col0 + i % 16 < n) c[(row0 + i / 16) * n + col0 + i % 16] = cs[i];
}
