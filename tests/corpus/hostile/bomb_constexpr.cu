// expect: compile_error
// timeout: 2
__device__ constexpr long f(long n) { long s = 0; for (long i = 0; i < n; i++) s += i; return s; }
constexpr long v = f(1000000000000L);
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
