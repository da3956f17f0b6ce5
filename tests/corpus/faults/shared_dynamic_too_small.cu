// fault: memory_fault byte 128 of shared array s[128 bytes]
// run: grid=1 block=64 shared=128
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  extern __shared__ float s[];
  s[threadIdx.x] = x[threadIdx.x];  // fault
  __syncthreads();
  y[threadIdx.x] = s[63 - threadIdx.x];
}
