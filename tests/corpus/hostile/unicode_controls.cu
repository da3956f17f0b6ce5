// expect: compile_error
‮⁦// }⁩
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
int ​x;
