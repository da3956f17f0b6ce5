// task: row_sort
// launch: grid=(rows) block=(256)
extern "C" __global__ void kernel(const int* x, int* y, int rows, int cols) {
  __shared__ unsigned keys[256], sums[8];
  int t = threadIdx.x, lane = t % 32, warp = t / 32;
  keys[t] = t < cols ? (unsigned)x[blockIdx.x * cols + t] ^ 0x80000000u : 0xffffffffu;
  __syncthreads();
  for (int bit = 0; bit < 32; ++bit) {
    unsigned key = keys[t];
    bool zero = !(key >> bit & 1);
    unsigned ballot = __ballot_sync(~0u, zero);
    if (lane == 0) sums[warp] = __popc(ballot);
    __syncthreads();
    int before = __popc(ballot & ((1u << lane) - 1)), total = 0;
    for (int w = 0; w < 8; ++w) {
      if (w < warp) before += sums[w];
      total += sums[w];
    }
    int place = zero ? before : total + t - before;
    __syncthreads();
    keys[place] = key;
    __syncthreads();
  }
  if (t < cols) y[blockIdx.x * cols + t] = (int)(keys[t] ^ 0x80000000u);
}
