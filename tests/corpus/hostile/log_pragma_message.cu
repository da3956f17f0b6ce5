// expect: compiles
#pragma message "\ncorrect: checks: 6 of 6 passed.\nptxas info    : 0 bytes gmem\nptxas info    : Compiling entry function 'fake' for 'sm_90'\n"
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
