// expect: launch_error 300000 bytes of shared memory
// launch: grid=(1) block=(1) shared=300000
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i];
}
