// expect: correct
// launch: grid=(ceil_div(n, 256)) block=(256)
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float r;
    asm volatile("{\n\t.reg .f32 t;\n\tadd.f32 t, %1, %2; // sum\n\tmov.f32 %0, t;\n\t}" : "=f"(r) : "f"(x[i]), "f"(y[i]) : "memory");
    z[i] = r;
  }
}
