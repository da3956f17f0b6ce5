// expect: compile_error only device code and launch lines
// launch: kernel grid=(1) block=(1)
extern "C" __global__ void child(float* z) {}
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  child<<<1, 1>>>(z);
  if (i < n) z[i] = x[i] + y[i];
}
