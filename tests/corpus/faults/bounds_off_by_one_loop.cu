// fault: memory_fault element 1024 of in0[1024]
// run: grid=1 block=32
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  float sum = 0.0f;
  for (int i = threadIdx.x; i <= n; i += 32)
    sum += x[i];  // fault
  y[threadIdx.x] = sum;
}
