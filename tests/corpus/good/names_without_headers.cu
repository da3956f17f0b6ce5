// expect: compiles
extern "C" __global__ void kernel(float* y) {
  uint32_t u = 7; size_t s = sizeof(int64_t); uintptr_t p = (uintptr_t)y;
  assert(u < s * 100);
  if (threadIdx.x == 0) printf("%d\n", (int)u);
  y[0] = (y[1] > FLT_MAX ? INFINITY : NAN) + (float)M_PI + (p & 3) + INT_MAX + DBL_EPSILON;
}
