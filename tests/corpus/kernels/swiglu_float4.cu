// task: swiglu
// launch: grid=(ceil_div(n, 512)) block=(128)
__device__ float one(float x, float g) { return x * (g / (1.0f + expf(-g))); }
extern "C" __global__ void kernel(const float* x, const float* gate, float* y, int n) {
  int i = (blockIdx.x * 128 + threadIdx.x) * 4;
  if (i + 3 < n) {
    float4 a = *(const float4*)(x + i), g = *(const float4*)(gate + i);
    *(float4*)(y + i) = make_float4(one(a.x, g.x), one(a.y, g.y), one(a.z, g.z), one(a.w, g.w));
  } else {
    for (; i < n; ++i) y[i] = one(x[i], gate[i]);
  }
}
