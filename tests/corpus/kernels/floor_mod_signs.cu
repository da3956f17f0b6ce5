// task: floor_mod
// launch: grid=(ceil_div(n, 64)) block=(64)
extern "C" __global__ void kernel(const int* x, int* y, int m, int n) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i < n) {
    int r = x[i] % m;
    y[i] = r < 0 ? r + m : r;
  }
}
