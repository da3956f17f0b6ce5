// expect: correct
// launch: grid=(ceil_div(n, 256)) block=(256)
struct Value { float v; __device__ Value operator+(Value o) const { return {v + o.v}; } };
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = (Value{x[i]} + Value{y[i]}).v;
}
