// expect: compile_error #embed is not allowed
const unsigned char data[] = {
#embed "@SECRET@"
};
extern "C" __global__ void kernel(float* y) { y[threadIdx.x] *= 2; }
