// task: matmul_transposed
// tolerance: 1e-2 6e-2
// regimes: signed zero
// launch: grid=(ceil_div(n, 8), ceil_div(m, 16)) block=(32)
extern "C" __global__ void kernel(const float* a, const float* b, float* c, int m, int n, int k) {
  int lane = threadIdx.x, g = lane / 4, t = lane % 4, row0 = blockIdx.y * 16, col0 = blockIdx.x * 8;
  auto at_a = [&](int r, int q) { return row0 + r < m && q < k ? __float_as_uint(a[(row0 + r) * k + q]) : 0u; };
  auto at_b = [&](int r, int q) { return col0 + r < n && q < k ? __float_as_uint(b[(col0 + r) * k + q]) : 0u; };
  float d[4] = {};
  for (int base = 0; base < k; base += 8) {
    unsigned x[4] = {at_a(g, base + t), at_a(g + 8, base + t), at_a(g, base + t + 4), at_a(g + 8, base + t + 4)};
    unsigned y[2] = {at_b(g, base + t), at_b(g, base + t + 4)};
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  }
  for (int i = 0; i < 4; ++i) {
    int r = row0 + g + 8 * (i / 2), q = col0 + t * 2 + i % 2;
    if (r < m && q < n) c[r * n + q] = d[i];
  }
}
