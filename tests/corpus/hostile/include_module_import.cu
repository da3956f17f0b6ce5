// expect: compile_error line 2
import "@SECRET@";
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
