// expect: compiles
#pragma include_alias("math.h", "@SECRET@")
#include "math.h"
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
