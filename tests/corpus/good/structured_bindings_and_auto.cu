// expect: compiles
struct Two { float a, b; };
extern "C" __global__ void kernel(float* y) { auto [a, b] = Two{y[0], y[1]}; if (auto s = a + b; s > 0) y[2] = s; for (int k = 1; k < 4; ++k) y[k] += k; }
