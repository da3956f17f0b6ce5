// expect: compile_error no __global__ kernel
// launch: kernel grid=(ceil_div(n, 256)) block=(256)
__device__ int x;
