// fault: uninitialised local array
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  struct { float v[4]; int count; } s;
  s.count = 0;
  for (int i = 0; i < n; i += 500) s.v[(s.count++) & 3] = x[i];
  y[threadIdx.x] = s.v[(threadIdx.x + s.count) & 3];  // fault
}
