// expect: compile_error excessive recursion
// timeout: 3
template <int N> struct S { static const int v = S<N + 1>::v; };
extern "C" __global__ void kernel(float* y) { y[0] = S<0>::v; }
