// fault: memory_fault null pointer
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  float* p = (float*)(unsigned long long)(x[1] < 0.0f);
  p[threadIdx.x] = x[threadIdx.x];  // fault
}
