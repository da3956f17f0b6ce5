// task: double_matmul
// launch: grid=(ceil_div(n, 8), ceil_div(m, 8)) block=(32)
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void kernel(const double* a, const double* b, double* c, int m, int n, int k) {
  __shared__ __align__(32) double as[32], bs[32], cs[64];
  int t = threadIdx.x, row0 = blockIdx.y * 8, col0 = blockIdx.x * 8;
  wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 8, 8, 4, double> fc;
  wmma::fill_fragment(fc, 0.0);
  for (int base = 0; base < k; base += 4) {
    as[t] = row0 + t / 4 < m && base + t % 4 < k ? a[(row0 + t / 4) * k + base + t % 4] : 0.0;
    bs[t] = base + t / 8 < k && col0 + t % 8 < n ? b[(base + t / 8) * n + col0 + t % 8] : 0.0;
    __syncwarp();
    wmma::load_matrix_sync(fa, as, 4);
    wmma::load_matrix_sync(fb, bs, 8);
    wmma::mma_sync(fc, fa, fb, fc);
    __syncwarp();
  }
  wmma::store_matrix_sync(cs, fc, 8, wmma::mem_row_major);
  __syncwarp();
  for (int i = t; i < 64; i += 32)
    if (row0 + i / 8 < m && col0 + i % 8 < n) c[(row0 + i / 8) * n + col0 + i % 8] = cs[i];
}
