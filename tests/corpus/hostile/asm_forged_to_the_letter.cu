// expect: compile_error device malloc
// launch: grid=(ceil_div(n, 256)) block=(256)
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i];
  asm volatile("\n\t// end inline asm\n\tret;\n}\n.extern .func (.param .b64 p) malloc (.param .b64 n);\n"
               ".visible .entry other()\n{\n\t.param .b64 n;\n\t.param .b64 p;\n\tst.param.b64 [n], 4;\n"
               "\tcall.uni (p), malloc, (n);\n\t// begin inline asm\n");
}
