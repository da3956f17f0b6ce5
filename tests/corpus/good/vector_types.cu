// expect: compiles
extern "C" __global__ void kernel(float4* y, const int2* x) {
  float4 v = y[threadIdx.x];
  int2 k = __ldg(x + threadIdx.x);
  y[threadIdx.x] = make_float4(v.w, v.z, k.x, k.y);
  dim3 d(1, 2, 3); y[0].x = d.y;
}
