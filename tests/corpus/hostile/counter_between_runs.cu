// expect: incorrect
// launch: kernel grid=(ceil_div(n, 256)) block=(256)
// launch: count grid=(1) block=(1) args=()
__device__ int runs;
extern "C" __global__ void count() { runs++; }
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = runs > 0 ? x[i] + y[i] : 0;
}
