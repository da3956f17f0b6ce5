// expect: compiles
template <int N> __global__ void kernel(float* y) { y[threadIdx.x] *= N; }
template __global__ void kernel<4>(float*);
