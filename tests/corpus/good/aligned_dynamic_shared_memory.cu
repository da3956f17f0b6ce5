// expect: correct
// launch: grid=(ceil_div(n, 256)) block=(256) shared=1024
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  extern __shared__ __align__(16) unsigned char raw[];
  float* tile = reinterpret_cast<float*>(raw);
  tile[threadIdx.x] = i < n ? x[i] : 0;
  if (i < n) z[i] = tile[threadIdx.x] + y[i];
}
