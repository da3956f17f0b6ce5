// fault: uninitialised element 0 of out1[1024]
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  y[threadIdx.x] += x[threadIdx.x];  // fault
}
