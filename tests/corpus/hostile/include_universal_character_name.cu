// expect: compile_error unrecognized preprocessing directive
#\u0069nclude "@SECRET@"
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
