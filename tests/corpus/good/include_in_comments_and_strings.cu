// expect: correct
// launch: grid=(ceil_div(n, 256)) block=(256)
// #include <vector>
/* #include "/etc/passwd"
#include <string>
*/
__device__ const char text[] = "#include <vector>";
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i];
}
