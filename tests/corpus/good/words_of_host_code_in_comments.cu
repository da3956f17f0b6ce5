// expect: correct
// launch: grid=(ceil_div(n, 256)) block=(256)
// call kernel<<<grid, block, 0, stream>>>(x) from main(), after cudaMalloc and std::vector
/* asm(".entry") malloc system exec eval __import__ */
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i];
}
