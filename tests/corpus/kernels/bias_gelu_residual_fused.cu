// task: bias_gelu_residual
// launch: grid=(rows) block=(128)
extern "C" __global__ void kernel(const float* x, const float* bias, const float* residual, float* y, int rows, int cols) {
  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    int i = blockIdx.x * cols + c;
    float v = x[i] + bias[c], u = 0.7978845608f * (v + 0.044715f * v * v * v);
    y[i] = 0.5f * v * (1.0f + tanhf(u)) + residual[i];
  }
}
