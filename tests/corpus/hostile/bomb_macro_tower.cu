// expect: compile_error
// timeout: 2
#define X0 "aaaaaaaa"
#define X1 X0 X0 X0 X0 X0 X0 X0 X0
#define X2 X1 X1 X1 X1 X1 X1 X1 X1
#define X3 X2 X2 X2 X2 X2 X2 X2 X2
#define X4 X3 X3 X3 X3 X3 X3 X3 X3
#define X5 X4 X4 X4 X4 X4 X4 X4 X4
#define X6 X5 X5 X5 X5 X5 X5 X5 X5
#define X7 X6 X6 X6 X6 X6 X6 X6 X6
#define X8 X7 X7 X7 X7 X7 X7 X7 X7
__device__ const char text[] = X8;
extern "C" __global__ void kernel(float* y) { y[0] = text[(int)y[1]]; }
