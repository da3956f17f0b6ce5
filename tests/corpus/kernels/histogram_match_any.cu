// task: histogram
// launch: grid=(1) block=(32)
extern "C" __global__ void kernel(const int* x, int* counts, int n, int bins) {
  for (int b = threadIdx.x; b < bins; b += 32) counts[b] = 0;
  __syncwarp();
  for (int base = 0; base < n; base += 32) {
    int i = base + threadIdx.x, v = i < n ? x[i] : -1;
    bool valid = v >= 0 && v < bins;
    unsigned peers = __match_any_sync(~0u, valid ? v : -1);
    if (valid && (int)threadIdx.x == __ffs(peers) - 1) counts[v] += __popc(peers);
    __syncwarp();
  }
}
