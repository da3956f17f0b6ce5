// expect: compile_error managed memory
// launch: grid=(ceil_div(n, 256)) block=(256)
__managed__ int runs;
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  runs++;
  if (i < n) z[i] = x[i] + y[i];
}
