// expect: compiles
asm(".global .u32 stash; .incbin \"@SECRET@\";");
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
