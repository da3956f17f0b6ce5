// fault: misaligned read of 16 bytes: element 1 of in0[1024]
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  ((float4*)y)[threadIdx.x] = *(const float4*)(x + 4 * threadIdx.x + 1);  // fault
}
