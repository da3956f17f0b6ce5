// fault: stack nested calls
// run: grid=1 block=1
__device__ __noinline__ int deeper(int n, int* p) {
  p[n & 7] = n;
  return n == -1 ? 0 : deeper(n + 1, p) * deeper(n + 2, p) + p[n & 3];  // fault
}
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  y[0] = deeper(0, (int*)y);
}
