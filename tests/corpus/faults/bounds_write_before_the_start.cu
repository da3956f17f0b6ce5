// fault: memory_fault write of 4 bytes: element -1 of out1[1024]
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  y[(int)threadIdx.x - 1] = 1.0f;  // fault
}
