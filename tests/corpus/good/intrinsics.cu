// expect: compiles
extern "C" __global__ void kernel(float* y) {
  unsigned mask = __ballot_sync(0xffffffffu, y[threadIdx.x] > 0);
  int v = __shfl_xor_sync(mask, __popc(mask), 1) + __ffs(mask) + __clz(mask) + __reduce_add_sync(~0u, 1);
  atomicAdd(y, __fdividef(v, 3.0f)); atomicMax((int*)y + 1, v); __threadfence(); __syncwarp();
  y[2] = __expf(rsqrtf(__fmaf_rn(y[3], 2, 1))) + clock64() % 2;
  __nanosleep(1); if (v == 12345) __trap();
}
