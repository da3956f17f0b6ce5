// expect: correct
// launch: grid=(ceil_div(n, 256)) block=(256)
__constant__ float weights[4] = {1, 1, 1, 1};
__device__ const float other[] = {0.0f, 1.0f};
static __device__ int counter;
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = weights[i & 3] * x[i] + y[i] * other[1];
}
