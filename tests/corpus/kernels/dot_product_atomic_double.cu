// task: dot_product
// scratch: total double 1
// launch: clear grid=(1) block=(1) args=(total)
// launch: add grid=(ceil_div(n, 512)) block=(128) args=(u, v, total, n)
// launch: finish grid=(1) block=(1) args=(total, y)
extern "C" __global__ void clear(double* total) { *total = 0.0; }
extern "C" __global__ void add(const float* u, const float* v, double* total, int n) {
  double sum = 0.0;
  for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) sum += (double)u[i] * v[i];
  for (int d = 16; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) atomicAdd(total, sum);
}
extern "C" __global__ void finish(const double* total, float* y) { *y = (float)*total; }
