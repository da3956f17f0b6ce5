// expect: launch_error extern "C" is missing
// launch: kernel grid=(1) block=(1)
__global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i];
}
__global__ void other() {}
