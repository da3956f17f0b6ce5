// expect: correct
// launch: grid=(ceil_div(n, 256)) block=(256)
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  union { float f; unsigned u; } v;
  if (i < n) { v.f = x[i]; v.u ^= 0u; z[i] = v.f + y[i]; }
}
