// task: silu
// launch: grid=(ceil_div(n, 64)) block=(64)
typedef float (*Function)(float);
__device__ __noinline__ float negative(float x) { float e = expf(x); return x * e / (1.0f + e); }
__device__ __noinline__ float positive(float x) { return x / (1.0f + expf(-x)); }
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= n) return;
  Function f = x[i] < 0.0f ? negative : positive;
  y[i] = f(x[i]);
}
