// expect: correct
// launch: grid=(ceil_div(n, 256)) block=(256)
extern "C" __global__ void kernel(const float* __restrict__ x, const float* __restrict y, float* __restrict__ z, const int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i];
}
