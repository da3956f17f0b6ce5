// expect: compile_error too much shared data
// launch: grid=(ceil_div(n, 256)) block=(256)
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  __shared__ float s[99999]; s[i] = 1; __syncthreads(); z[0] = s[i + 1];
  if (i < n) z[i] = x[i] + y[i];
}
