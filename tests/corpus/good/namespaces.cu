// expect: correct
// launch: grid=(ceil_div(n, 256)) block=(256)
namespace outer::inner { __device__ float add(float a, float b) { return a + b; } }
namespace { __device__ int unused() { return 1; } }
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = outer::inner::add(x[i], y[i]);
}
