// expect: hack closes the function
// launch: grid=(ceil_div(n, 256)) block=(256)
#define TEXT(x) #x
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i];
  asm volatile(TEXT(ret; } .vis) "ible .en" "try other() { ret;");
}
