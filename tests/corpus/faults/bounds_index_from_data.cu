// fault: memory_fault element 1200 of out1[1024]
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  if (threadIdx.x == 60) y[(int)x[threadIdx.x] * 20] = 1.0f;  // fault
}
