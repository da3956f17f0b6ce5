// expect: compile_error compile time limit
// timeout: 2
template <int D, int P> struct B { static const long v = B<D - 1, 2 * P>::v + B<D - 1, 2 * P + 1>::v; };
template <int P> struct B<0, P> { static const long v = P; };
extern "C" __global__ void kernel(float* y) { y[0] = B<22, 1>::v; }
