// fault: stack nested calls
// run: grid=1 block=1
__device__ __noinline__ float walk(const float* x, int i, int n) {
  if (i >= n) return 0.0f;
  float rest = walk(x, i + 1, n) + walk(x, i + 600, n);  // fault
  return x[i] + rest * x[0];
}
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  y[0] = walk(x, 0, n);
}
