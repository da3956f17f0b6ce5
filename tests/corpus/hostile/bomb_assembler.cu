// expect: compile_error compile time limit
// timeout: 2
extern "C" __global__ void kernel(float* y) {
  float a[256];
  #pragma unroll
  for (int i = 0; i < 256; ++i) a[i] = y[i];
  for (int k = 0; k < 1000; ++k) {
    #pragma unroll
    for (int i = 0; i < 256; ++i) a[i] = powf(a[i], a[(i * 7 + 1) % 256]) + powf(a[(i + 3) % 256], 1.5f);
  }
  #pragma unroll
  for (int i = 0; i < 256; ++i) y[i] = a[i];
}
