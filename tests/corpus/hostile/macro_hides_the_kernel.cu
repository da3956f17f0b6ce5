// expect: correct
// launch: grid=(ceil_div(n, 256)) block=(256)
#define KERNEL extern "C" __global__ void
KERNEL kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i];
}
