// expect: compiles
struct Base { __device__ virtual float f(float a) const { return a; } };
struct Derived : Base { __device__ float f(float a) const override { return 2 * a; } };
__device__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
extern "C" __global__ void kernel(float* y) { Derived d; Base* b = &d; y[0] = b->f(y[1]) + fib((int)y[2]); }
