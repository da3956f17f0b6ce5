// fault: memory_fault in0[1024]
// run: grid=2 block=64
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  y[blockIdx.x * 64 + threadIdx.x] = x[(blockIdx.x + 15) * blockDim.x + threadIdx.x];  // fault
}
