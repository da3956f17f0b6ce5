// task: causal_attention
// launch: grid=(ceil_div(length, 16)) block=(16) shared=4 * 32 * dim
extern "C" __global__ void kernel(const float* q, const float* k, const float* v, float* y, int length, int dim) {
  extern __shared__ float s[];
  float *ks = s, *vs = s + 16 * dim;
  int t = threadIdx.x, r = blockIdx.x * 16 + t;
  float own[32], acc[32], most = -INFINITY, sum = 0.0f;
  for (int d = 0; d < dim; ++d) {
    own[d] = r < length ? q[r * dim + d] * rsqrtf((float)dim) : 0.0f;
    acc[d] = 0.0f;
  }
  for (int base = 0; base <= blockIdx.x * 16; base += 16) {
    __syncthreads();
    for (int i = t; i < 16 * dim; i += 16) {
      bool in = base * dim + i < length * dim;
      ks[i] = in ? k[base * dim + i] : 0.0f;
      vs[i] = in ? v[base * dim + i] : 0.0f;
    }
    __syncthreads();
    for (int j = 0; j < 16 && base + j <= r; ++j) {
      float score = 0.0f;
      for (int d = 0; d < dim; ++d) score += own[d] * ks[j * dim + d];
      float larger = fmaxf(most, score), keep = expf(most - larger), weight = expf(score - larger);
      sum = sum * keep + weight;
      for (int d = 0; d < dim; ++d) acc[d] = acc[d] * keep + weight * vs[j * dim + d];
      most = larger;
    }
  }
  if (r < length)
    for (int d = 0; d < dim; ++d) y[r * dim + d] = acc[d] / sum;
}
