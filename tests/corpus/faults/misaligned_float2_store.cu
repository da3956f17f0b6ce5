// fault: misaligned write of 8 bytes: element 1 of out1[1024]
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  *(float2*)(y + 2 * threadIdx.x + 1) = make_float2(x[0], x[1]);  // fault
}
