// fault: barrier mma needs all 32 threads of a warp
// run: grid=1 block=48
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  unsigned a = __float_as_uint(x[threadIdx.x]);
  float c[4] = {};
  asm volatile("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %4}, {%4}, {%0, %1, %2, %3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a));  // fault
  y[threadIdx.x] = c[0];
}
