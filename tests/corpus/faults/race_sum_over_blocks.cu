// fault: race element 0 of out1[1024]
// run: grid=4 block=64
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) y[0] = s[0] + s[1] + blockIdx.x;  // fault
}
