// fault: memory_fault null pointer is not a function of that type
typedef float (*Function)(float);
__device__ __noinline__ float twice(float v) { return 2.0f * v; }
__device__ Function table[2] = {twice, nullptr};
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  Function f = table[x[threadIdx.x] == 40.0f];
  y[threadIdx.x] = f(x[threadIdx.x]);  // fault
}
