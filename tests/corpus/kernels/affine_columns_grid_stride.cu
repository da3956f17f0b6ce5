// task: affine_columns
// launch: grid=(3) block=(96)
extern "C" __global__ void kernel(const float* x, const float* scale, const float* shift, float* y, int rows, int cols) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < rows * cols; i += gridDim.x * blockDim.x)
    y[i] = fmaf(x[i], scale[i % cols], shift[i % cols]);
}
