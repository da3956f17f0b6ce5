// fault: race element 0 of out1[1024]
// run: grid=3 block=64
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  y[threadIdx.x] = blockIdx.x + x[0];  // fault
}
