// expect: compile_error larger than 64 KiB
@FILLER@
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
