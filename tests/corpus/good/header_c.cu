// expect: compiles
#include <math.h>
#include <stdint.h>
#include <float.h>
#include <limits.h>
#include <stdio.h>
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
extern "C" __global__ void kernel(float* y) {
  uint32_t bits = __float_as_uint(y[0]);
  assert(bits != UINT_MAX);
  printf("%u\n", bits);
  y[1] = fminf(FLT_MAX, sqrtf(y[0])) + (float)INT_MAX;
  memcpy(y, y + 4, sizeof(float) * 2);
}
