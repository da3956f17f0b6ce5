// expect: correct
// launch: grid=(ceil_div(n, 256)) block=(256)
template <class... T> __device__ auto sum(T... values) { return (values + ...); }
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = sum(x[i], y[i], 0.0f);
}
