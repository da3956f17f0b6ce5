// expect: compile_error error inside a toolkit header
#pragma message "x\n@SECRET@(1): error: root:x:0:0\nkernel.cu(1): note"
foo;
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
