// expect: correct
// launch: grid=(ceil_div(n, 256)) block=(256)
#define TEXT(x) #x
#define NAME(a, b) a##b
__device__ const char text[] = TEXT(include <"x">);
#define IF(...) __VA_ARGS__
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) NAME(z, )[i] = x[i] + y[i];
}
