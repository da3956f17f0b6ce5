// expect: compile_error
// launch: kernel grid=(ceil_div(n, 256)) block=(256)
// __global__ void kernel() {}
__device__ const char s[] = "__global__ void kernel() {}";
