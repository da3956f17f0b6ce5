// expect: correct
// launch: grid=(ceil_div(n, 256)) block=(256)
template <typename T, int N> __device__ __forceinline__ T add(T a, T b) { return a + N * b; }
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = add<float, 1>(x[i], y[i]);
}
