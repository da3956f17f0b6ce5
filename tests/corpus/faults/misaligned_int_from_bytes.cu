// fault: misaligned read of 4 bytes
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  const char* bytes = (const char*)x;
  y[threadIdx.x] = *(const float*)(bytes + threadIdx.x);  // fault
}
