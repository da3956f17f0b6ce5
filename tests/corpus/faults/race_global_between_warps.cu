// fault: race element 63 of out1[1024]
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  y[threadIdx.x] = x[threadIdx.x];
  y[1000 - threadIdx.x] = y[63 - threadIdx.x];  // fault
}
