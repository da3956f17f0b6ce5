// expect: compiles
struct __align__(8) Pair { int a : 5; unsigned b : 27; float c; };
enum class Kind : unsigned char { one, two };
extern "C" __global__ void kernel(float* y) { Pair p{1, 2u, 3.0f}; Kind k = Kind::two; y[0] = p.a + p.b + p.c + (k == Kind::two); }
