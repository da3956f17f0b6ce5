// expect: correct
// launch: grid=(ceil_div(n, 256)) block=(256)
constexpr int BLOCK = 256;
__host__ __device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
static_assert(ceil_div(1, BLOCK) == 1);
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if constexpr (ceil_div(257, 256) == 2) { if (i < n) z[i] = x[i] + y[i]; }
}
