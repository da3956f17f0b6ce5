// expect: launch_error unexpected
// launch: grid=(__import__("os").system("cat @SECRET@")) block=(1)
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i];
}
