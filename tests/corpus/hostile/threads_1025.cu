// expect: launch_error block x is 1025
// launch: grid=(1) block=(1025)
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i];
}
