// fault: memory_fault of shared array tile[1024 bytes]
// run: grid=1 block=(16,16)
extern "C" __global__ void kernel(const float* x, float* y, int n) {
  __shared__ float tile[16][16];
  tile[threadIdx.y + threadIdx.x / 15][threadIdx.x] = x[threadIdx.x];  // fault
  __syncthreads();
  y[threadIdx.y * 16 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
