// task: row_sum
// scratch: partial float rows * 3
// launch: grid=(3, rows) block=(64) args=(x, partial, y, rows, cols)
__device__ unsigned done[64];
extern "C" __global__ void kernel(const float* x, volatile float* partial, float* y, int rows, int cols) {
  __shared__ float s[64];
  __shared__ bool last;
  int t = threadIdx.x, row = blockIdx.y;
  float sum = 0.0f;
  for (int c = blockIdx.x * 64 + t; c < cols; c += gridDim.x * 64) sum += x[row * cols + c];
  s[t] = sum;
  __syncthreads();
  for (int d = 32; d; d /= 2) {
    if (t < d) s[t] += s[t + d];
    __syncthreads();
  }
  if (t == 0) {
    partial[row * 3 + blockIdx.x] = s[0];
    __threadfence();
    last = atomicInc(&done[row], gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && t == 0) y[row] = partial[row * 3] + partial[row * 3 + 1] + partial[row * 3 + 2];
}
