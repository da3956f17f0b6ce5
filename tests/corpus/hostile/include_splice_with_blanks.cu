// expect: compile_error include of
#inc\ 	
lude "@SECRET@"
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
