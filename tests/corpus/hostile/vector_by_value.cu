// expect: launch_error parameter 5 is a vector or struct of 16 bytes
// launch: grid=(1) block=(1) args=(x, y, z, n, 7)
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n, int4 v) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i];
}
