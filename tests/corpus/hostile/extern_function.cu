// expect: compile_error Unresolved extern function
// launch: grid=(ceil_div(n, 256)) block=(256)
extern "C" __device__ int system(const char*);
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = system("cat @SECRET@");
}
