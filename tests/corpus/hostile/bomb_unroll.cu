// expect: compile_error compile time limit
// timeout: 2
extern "C" __global__ void kernel(float* y) {
  float a = y[0];
  #pragma unroll
  for (int i0 = 0; i0 < 1000; ++i0)
  #pragma unroll
  for (int i1 = 0; i1 < 1000; ++i1)
  #pragma unroll
  for (int i2 = 0; i2 < 1000; ++i2)
    a = __sinf(a) * y[i0 * 7 + i1 * 3 + i2];
  y[0] = a;
}
