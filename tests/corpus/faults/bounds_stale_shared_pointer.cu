// fault: memory_fault in no allocation
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  unsigned long long p = (unsigned long long)y ^ (1ull << 52);
  *(float*)p = x[0];  // fault
}
