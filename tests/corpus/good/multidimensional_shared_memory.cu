// expect: compiles
extern "C" __global__ void kernel(float* y) {
  __shared__ float tile[32][33];
  tile[threadIdx.y][threadIdx.x] = y[threadIdx.y * 32 + threadIdx.x];
  __syncthreads();
  y[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
