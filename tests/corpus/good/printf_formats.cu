// expect: compiles
extern "C" __global__ void kernel(float* y) { if (threadIdx.x == 0) printf("%d %f %s 100%% \x41\n\t\"%c\"", 1, y[0], "text // no comment", '\''); }
