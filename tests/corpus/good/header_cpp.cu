// expect: compiles
#include <cmath>
#include <cstdint>
#include <cfloat>
#include <climits>
#include <cstdio>
#include <cassert>
#include <cstddef>
extern "C" __global__ void kernel(float* y) { y[0] = std::exp(y[1]) + std::fmax(y[2], 0.0f) + std::abs(y[3]) + (std::isnan(y[4]) ? 1 : 0); }
