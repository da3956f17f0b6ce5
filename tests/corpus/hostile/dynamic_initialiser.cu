// expect: compile_error dynamic initialization
// launch: grid=(ceil_div(n, 256)) block=(256)
struct A { int v; __device__ A() { v = 3; } };
__device__ A a;
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = a.v;
}
