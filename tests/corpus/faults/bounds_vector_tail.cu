// fault: memory_fault read of 16 bytes: element 1024 of in0[1024]
// run: grid=1 block=32
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  float sum = 0.0f;
  for (int i = threadIdx.x; i <= n / 4; i += 32) {
    float4 v = ((const float4*)x)[i];  // fault
    sum += v.x + v.y + v.z + v.w;
  }
  y[threadIdx.x] = sum;
}
