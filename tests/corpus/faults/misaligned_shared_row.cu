// fault: misaligned shared read of 16 bytes
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  __shared__ float s[16][17];
  for (int i = threadIdx.x; i < 272; i += 64) s[i / 17][i % 17] = x[i];
  __syncthreads();
  float4 v = *(float4*)&s[threadIdx.x % 16][0];  // fault
  y[threadIdx.x] = v.x + v.y;
}
