// expect: compile_error include of
extern "C" __global__ void kernel(float* y) {
  printf(
%:include "@SECRET@"
  );
  y[0] = 1;
}
