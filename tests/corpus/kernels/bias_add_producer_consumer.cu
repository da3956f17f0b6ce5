// task: bias_add
// launch: grid=(rows) block=(64) shared=0
extern "C" __global__ void kernel(const float* x, const float* bias, float* y, int rows, int cols) {
  __shared__ float stage[2][32];
  int lane = threadIdx.x % 32, steps = (cols + 31) / 32;
  if (threadIdx.x < 32) {
    for (int i = 0; i < steps; ++i) {
      if (i >= 2) { if (i % 2) asm volatile("bar.sync 4, 64;" ::: "memory"); else asm volatile("bar.sync 3, 64;" ::: "memory"); }
      int c = i * 32 + lane;
      stage[i % 2][lane] = c < cols ? x[blockIdx.x * cols + c] : 0.0f;
      __threadfence_block();
      if (i % 2) asm volatile("bar.arrive 2, 64;" ::: "memory"); else asm volatile("bar.arrive 1, 64;" ::: "memory");
    }
  } else {
    for (int i = 0; i < steps; ++i) {
      if (i % 2) asm volatile("bar.sync 2, 64;" ::: "memory"); else asm volatile("bar.sync 1, 64;" ::: "memory");
      int c = i * 32 + lane;
      if (c < cols) y[blockIdx.x * cols + c] = stage[i % 2][lane] + bias[c];
      if (i + 2 < steps) {
        if (i % 2) asm volatile("bar.arrive 4, 64;" ::: "memory"); else asm volatile("bar.arrive 3, 64;" ::: "memory");
      }
    }
  }
}
