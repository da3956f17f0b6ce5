// expect: compile_error Unresolved extern function
// launch: grid=(ceil_div(n, 256)) block=(256)
extern "C" __device__ unsigned cudaLaunchDeviceV2(void*, void*);
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  z[0] = cudaLaunchDeviceV2(0, 0);
}
