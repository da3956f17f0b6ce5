// fault: stack nested calls
// run: grid=1 block=1
__device__ __noinline__ int odd(int n, int* p);
__device__ __noinline__ int even(int n, int* p) {
  p[0] = n;
  return n == -1 ? 1 : odd(n + 1, p) + p[0];  // fault
}
__device__ __noinline__ int odd(int n, int* p) {
  p[1] = n;
  return n == -1 ? 0 : even(n + 1, p) + p[1];  // fault
}
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  y[0] = even(0, (int*)y);
}
