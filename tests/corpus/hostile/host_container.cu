// expect: compile_error only device code and launch lines are taken
// launch: grid=(ceil_div(n, 256)) block=(256)
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  std::vector<float> v(n);
  if (i < n) z[i] = x[i] + y[i];
}
