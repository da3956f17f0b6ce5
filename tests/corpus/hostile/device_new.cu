// expect: compile_error device malloc
// launch: grid=(ceil_div(n, 256)) block=(256)
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float* p = new float[n]; p[i] = x[i]; z[i] = p[i];
  if (i < n) z[i] = x[i] + y[i];
}
