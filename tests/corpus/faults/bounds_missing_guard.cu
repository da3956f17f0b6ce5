// fault: memory_fault element 1024 of in0[1024]
// run: grid=17 block=64
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = 2.0f * x[i];  // fault
}
