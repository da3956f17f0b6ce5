// task: histogram
// launch: clear grid=(ceil_div(bins, 64)) block=(64) args=(counts, bins)
// launch: count grid=(4) block=(128) shared=4 * bins args=(x, counts, n, bins)
extern "C" __global__ void clear(int* counts, int bins) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i < bins) counts[i] = 0;
}
extern "C" __global__ void count(const int* x, int* counts, int n, int bins) {
  extern __shared__ int own[];
  for (int b = threadIdx.x; b < bins; b += 128) own[b] = 0;
  __syncthreads();
  for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) {
    int v = x[i];
    if (v >= 0 && v < bins) atomicAdd(&own[v], 1);
  }
  __syncthreads();
  for (int b = threadIdx.x; b < bins; b += 128)
    if (own[b]) atomicAdd(&counts[b], own[b]);
}
