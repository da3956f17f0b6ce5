"""The emulator end to end: CUDA source through NVRTC and the machine, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from emulated import Out, program_of, run
from hypothesis import given, settings
from hypothesis import strategies as st

from leap_jax.kernels.emulator.machine import UnsupportedOpcode

F32, I32, U32 = np.float32, np.int32, np.uint32
RNG = np.random.default_rng(0)

ADD = """extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i];
}"""


@pytest.mark.parametrize(("n", "block"), [(1000, 256), (1, 32), (77, 33), (1024, 1024), (40_000, 128)])
def test_vector_add(n, block):
    x, y = RNG.normal(size=(2, n)).astype(F32)
    result = run(ADD, [x, y, Out(F32, n), I32(n)], grid=-(-n // block), block=block)
    np.testing.assert_array_equal(result.outputs[0], x + y)
    assert result.defined[0].all()
    assert result.modified == [False, False]
    assert result.counters.global_bytes_read == 8 * n
    assert result.counters.global_bytes_written == 4 * n


def test_elements_that_no_thread_writes_stay_undefined():
    x = np.ones(64, F32)
    result = run(ADD, [x, x, Out(F32, 64), I32(40)], block=64)
    np.testing.assert_array_equal(result.defined[0], np.arange(64) < 40)
    assert (result.outputs[0][40:].view(U32) == 0x7FC12345).all()


def test_a_store_to_an_input_is_recorded():
    source = (
        'extern "C" __global__ void kernel(float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; x[threadIdx.x] = 0; }'
    )
    result = run(source, [np.ones(32, F32), Out(F32, 32)])
    assert result.modified == [True]
    np.testing.assert_array_equal(result.outputs[0], np.ones(32, F32))


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 100), st.integers(0, 2**32 - 1))
def test_loops_with_a_trip_count_of_each_thread(threads, seed):
    source = """extern "C" __global__ void kernel(const int* trips, int* out) {
      int total = 0, t = threadIdx.x;
      for (int i = 0; i < trips[t]; i++) {
        if ((i ^ t) & 1) continue;
        if (i == 17) break;
        for (int j = i; j < t; j += 3) total += j * i;
        total -= i;
      }
      out[t] = total;
    }"""
    trips = np.random.default_rng(seed).integers(0, 25, threads).astype(I32)

    def thread(t: int) -> int:
        total = 0
        for i in range(trips[t]):
            if (i ^ t) & 1:
                continue
            if i == 17:
                break
            total += sum(j * i for j in range(i, t, 3)) - i
        return total

    result = run(source, [trips, Out(I32, threads)], block=threads)
    assert result.outputs[0].tolist() == [thread(t) for t in range(threads)]


TILED = """extern "C" __global__ void kernel(const float* a, const float* b, float* c, int m, int k, int n) {
  __shared__ float left[16][16];
  __shared__ float right[16][16];
  int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < k; t += 16) {
    left[threadIdx.y][threadIdx.x] = row < m && t + threadIdx.x < k ? a[row * k + t + threadIdx.x] : 0.f;
    right[threadIdx.y][threadIdx.x] = col < n && t + threadIdx.y < k ? b[(t + threadIdx.y) * n + col] : 0.f;
    __syncthreads();
    for (int i = 0; i < 16; i++) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = sum;
}"""


def test_tiled_matmul():
    m, k, n = 37, 45, 29
    a, b = RNG.normal(size=(m, k)).astype(F32), RNG.normal(size=(k, n)).astype(F32)
    args = [a.ravel(), b.ravel(), Out(F32, m * n), I32(m), I32(k), I32(n)]
    result = run(TILED, args, grid=(2, 3), block=(16, 16))
    np.testing.assert_allclose(result.outputs[0].reshape(m, n), a.astype(float) @ b, atol=1e-5)
    assert result.counters.barriers == 6 * 2 * 3
    assert result.counters.blocks == 6
    assert result.counters.threads == 6 * 256


def test_block_reduction_in_dynamic_shared_memory():
    source = """extern "C" __global__ void kernel(const float* x, float* y, int n) {
      extern __shared__ float s[];
      int t = threadIdx.x;
      float sum = 0;
      for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) sum += x[i];
      s[t] = sum;
      __syncthreads();
      for (int k = blockDim.x / 2; k > 0; k >>= 1) {
        if (t < k) s[t] += s[t + k];
        __syncthreads();
      }
      if (t == 0) y[blockIdx.x] = s[0];
    }"""
    x = RNG.normal(size=3000).astype(F32)
    result = run(source, [x, Out(F32, 5), I32(3000)], grid=5, block=128, shared=512)
    np.testing.assert_allclose(result.outputs[0].sum(dtype=float), x.sum(dtype=float), rtol=1e-4)


def test_softmax_of_a_row_per_warp():
    source = """extern "C" __global__ void kernel(const float* x, float* y, int rows, int cols) {
      int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
      if (row >= rows) return;
      float top = -3.4e38f, sum = 0;
      for (int c = lane; c < cols; c += 32) top = fmaxf(top, x[row * cols + c]);
      for (int o = 16; o; o >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
      for (int c = lane; c < cols; c += 32) sum += y[row * cols + c] = expf(x[row * cols + c] - top);
      for (int o = 16; o; o >>= 1) sum += __shfl_down_sync(~0u, sum, o);
      sum = __shfl_sync(~0u, sum, 0);
      for (int c = lane; c < cols; c += 32) y[row * cols + c] /= sum;
    }"""
    rows, cols = 13, 77
    x = RNG.normal(size=(rows, cols)).astype(F32)
    result = run(source, [x.ravel(), Out(F32, x.size), I32(rows), I32(cols)], grid=4, block=128)
    wide = np.exp(x.astype(float))
    np.testing.assert_allclose(result.outputs[0].reshape(x.shape), wide / wide.sum(1, keepdims=True), rtol=2e-6)


def test_scan_by_shuffles_and_shared_memory():
    source = """extern "C" __global__ void kernel(const int* x, int* y) {
      __shared__ int sums[32];
      int t = threadIdx.x, lane = t % 32, warp = t / 32, v = x[t];
      for (int o = 1; o < 32; o <<= 1) { int u = __shfl_up_sync(~0u, v, o); if (lane >= o) v += u; }
      if (lane == 31) sums[warp] = v;
      __syncthreads();
      if (warp == 0) {
        int s = lane < blockDim.x / 32 ? sums[lane] : 0;
        for (int o = 1; o < 32; o <<= 1) { int u = __shfl_up_sync(~0u, s, o); if (lane >= o) s += u; }
        sums[lane] = s;
      }
      __syncthreads();
      y[t] = v + (warp ? sums[warp - 1] : 0);
    }"""
    x = RNG.integers(-50, 50, 256).astype(I32)
    np.testing.assert_array_equal(run(source, [x, Out(I32, 256)], block=256).outputs[0], np.cumsum(x))


def test_transpose_through_a_padded_tile():
    source = """extern "C" __global__ void kernel(const float* x, float* y, int rows, int cols) {
      __shared__ float tile[32][33];
      int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
      for (int i = 0; i < 32; i += 8)
        if (c < cols && r + i < rows) tile[threadIdx.y + i][threadIdx.x] = x[(r + i) * cols + c];
      __syncthreads();
      c = blockIdx.y * 32 + threadIdx.x; r = blockIdx.x * 32 + threadIdx.y;
      for (int i = 0; i < 32; i += 8)
        if (c < rows && r + i < cols) y[(r + i) * rows + c] = tile[threadIdx.x][threadIdx.y + i];
    }"""
    x = RNG.normal(size=(45, 70)).astype(F32)
    result = run(source, [x.ravel(), Out(F32, x.size), I32(45), I32(70)], grid=(3, 2), block=(32, 8))
    np.testing.assert_array_equal(result.outputs[0].reshape(70, 45), x.T)


def test_histograms_by_shared_and_global_atomics():
    source = """
    extern "C" __global__ void zero(const int* x, int* bins, int n) { bins[threadIdx.x] = 0; }
    extern "C" __global__ void kernel(const int* x, int* bins, int n) {
      __shared__ int own[32];
      if (threadIdx.x < 32) own[threadIdx.x] = 0;
      __syncthreads();
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) atomicAdd(&own[x[i]], 1);
      __syncthreads();
      if (threadIdx.x < 32) atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
    }"""
    x = RNG.integers(0, 32, 2000).astype(I32)
    args = [x, Out(I32, 32), I32(2000)]
    zeroed = run(source, args, kernels=["zero"]).outputs[0]
    assert not zeroed.any()
    # The bins must be cleared by a launch of their own, over one block.
    source = source.replace("bins[threadIdx.x] = 0", "if (blockIdx.x == 0 && threadIdx.x < 32) bins[threadIdx.x] = 0")
    result = run(source, args, grid=8, block=256, kernels=["zero", "kernel"])
    np.testing.assert_array_equal(result.outputs[0], np.bincount(x, minlength=32))
    assert result.counters.atomics == 2000 + 8 * 32


def test_vector_loads_and_stores():
    source = """extern "C" __global__ void kernel(const float4* x, float2* y, unsigned char* bytes) {
      float4 v = x[threadIdx.x];
      y[threadIdx.x] = make_float2(v.x + v.y, v.z * v.w);
      bytes[threadIdx.x] = (unsigned char)v.x;
    }"""
    x = RNG.integers(0, 100, (48, 4)).astype(F32)
    pairs, low = run(source, [x.ravel(), Out(F32, 96), Out(np.uint8, 48)], block=48).outputs
    np.testing.assert_array_equal(pairs.reshape(48, 2), np.stack([x[:, 0] + x[:, 1], x[:, 2] * x[:, 3]], 1))
    np.testing.assert_array_equal(low, x[:, 0].astype(np.uint8))


def test_recursion_local_arrays_and_printf():
    source = """__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
    extern "C" __global__ void kernel(int* y) {
      int a[8];
      for (int k = 0; k < 8; k++) a[k] = k * threadIdx.x;
      int f = fib(threadIdx.x % 9);
      y[threadIdx.x] = f + a[f & 7];
      printf("%d\\n", f);
    }"""
    fib = np.array([0, 1, 1, 2, 3, 5, 8, 13, 21])[np.arange(50) % 9]
    result = run(source, [Out(I32, 50)], block=50)
    np.testing.assert_array_equal(result.outputs[0], fib + (fib & 7) * np.arange(50))


def test_generic_pointers_reach_every_space():
    source = """__device__ __noinline__ float twice(const float* p) { return 2 * *p; }
    extern "C" __global__ void kernel(const float* x, float* y) {
      __shared__ float s[32];
      float own[2] = {x[threadIdx.x] + 1, 0};
      s[threadIdx.x] = x[threadIdx.x] + 2;
      int which = threadIdx.x % 3;
      const float* p = which == 0 ? x + threadIdx.x : which == 1 ? &own[x[0] > 1e9f] : s + threadIdx.x;
      y[threadIdx.x] = twice(p);
    }"""
    x = RNG.normal(size=32).astype(F32)
    wanted = 2 * (x + (np.arange(32) % 3).astype(F32))
    np.testing.assert_allclose(run(source, [x, Out(F32, 32)]).outputs[0], wanted, rtol=1e-6)


def test_module_variables_start_fresh_and_keep_their_values_between_launches():
    source = """__device__ int counter = 5;
    __constant__ int table[4] = {10, 20, 30, 40};
    __device__ int* where = &counter;
    extern "C" __global__ void kernel(int* y) {
      if (threadIdx.x == 0) atomicAdd(where, 1);
      __syncthreads();
      y[threadIdx.x] = counter + table[threadIdx.x % 4];
    }"""
    for _ in range(2):
        once, twice = (run(source, [Out(I32, 32)], kernels=["kernel"] * n).outputs[0] for n in (1, 2))
        np.testing.assert_array_equal(once, 6 + 10 * (1 + np.arange(32) % 4))
        np.testing.assert_array_equal(twice, once + 1)


def test_special_registers_in_three_dimensions():
    source = """extern "C" __global__ void kernel(int* y) {
      int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
      int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
      y[block * blockDim.x * blockDim.y * blockDim.z + thread] = threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z
        + 1000 * blockIdx.x + 10000 * blockIdx.y + 100000 * blockIdx.z;
    }"""
    z, y, x, tz, ty, tx = np.indices((2, 3, 2, 2, 3, 4))
    wanted = tx + 10 * ty + 100 * tz + 1000 * x + 10000 * y + 100000 * z
    result = run(source, [Out(I32, wanted.size)], grid=(2, 3, 2), block=(4, 3, 2))
    np.testing.assert_array_equal(result.outputs[0], wanted.ravel())


def warp_of(thread: int) -> range:
    return range(thread // 32 * 32, thread // 32 * 32 + 32)


BALLOTS = [int(np.packbits(np.arange(w, w + 32) % 3 == 0, bitorder="little").view(I32)[0]) for w in (0, 32)]


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("__ballot_sync(~0u, t % 3 == 0)", lambda t: BALLOTS[t // 32]),
        ("__any_sync(~0u, t == 40)", lambda t: t >= 32),
        ("__all_sync(~0u, t < 40)", lambda t: t < 32),
        ("__popc(__match_any_sync(~0u, t % 5))", lambda t: sum(i % 5 == t % 5 for i in warp_of(t))),
        ("__reduce_add_sync(~0u, t)", lambda t: sum(warp_of(t))),
        ("__reduce_max_sync(~0u, t)", lambda t: max(warp_of(t))),
        ("__shfl_sync(~0u, t, 3, 8)", lambda t: t // 8 * 8 + 3),
        ("__shfl_up_sync(~0u, t, 2, 8)", lambda t: t - 2 if t % 8 >= 2 else t),
        ("__shfl_down_sync(~0u, t, 2, 8)", lambda t: t + 2 if t % 8 < 6 else t),
        ("__shfl_xor_sync(~0u, t, 5)", lambda t: t ^ 5),
        ("__syncthreads_count(t % 3 == 0)", lambda t: 22),
        ("__syncthreads_or(t == 63)", lambda t: 1),
        ("__syncthreads_and(t != 63)", lambda t: 0),
    ],
)
def test_warp_and_block_votes(expression, wanted):
    source = f'extern "C" __global__ void kernel(int* y) {{ int t = threadIdx.x; y[t] = {expression}; }}'
    result = run(source, [Out(I32, 64)], block=64)
    assert result.outputs[0].tolist() == [int(wanted(t)) for t in range(64)]


def test_diverged_lanes_of_a_warp_meet_at_different_shuffles():
    source = """extern "C" __global__ void kernel(int* y) {
      int t = threadIdx.x, v;
      if (t % 2) { v = __shfl_xor_sync(~0u, t * 10, 1); v += 1000; }
      else { v = t; for (int i = 0; i < t; i++) v = v * 3 % 101; v = __shfl_xor_sync(~0u, v, 1) + (v & 0); }
      y[t] = v;
    }"""
    result = run(source, [Out(I32, 32)]).outputs[0]
    assert result[0::2].tolist() == [10 * (t + 1) for t in range(0, 32, 2)]
    assert result[1::2].tolist() == [1000 + t * 3**t % 101 if t else 1000 for t in range(0, 32, 2)]


def test_half_warps_shuffle_by_their_own_masks():
    source = """extern "C" __global__ void kernel(int* y) {
      int t = threadIdx.x, v = t;
      if (t < 16) for (int o = 8; o; o >>= 1) v += __shfl_xor_sync(0xffffu, v, o);
      else v = __shfl_sync(0xffff0000u, v, 20);
      y[t] = v;
    }"""
    assert run(source, [Out(I32, 32)]).outputs[0].tolist() == [120] * 16 + [20] * 16


def test_exited_threads_release_a_barrier_and_a_shuffle():
    source = """extern "C" __global__ void kernel(int* y, int n) {
      __shared__ int s[128];
      int t = threadIdx.x;
      if (t >= n) return;
      s[t] = t;
      __syncthreads();
      y[t] = s[n - 1 - t] + __shfl_sync(~0u, t, 0);
    }"""
    result = run(source, [Out(I32, 128), I32(70)], block=128)
    assert result.outputs[0][:70].tolist() == [69 - t + t // 32 * 32 for t in range(70)]


def test_a_spin_lock_inside_a_warp_makes_progress():
    source = """extern "C" __global__ void zero(int* y, int* lock) { *y = 0; *lock = 0; }
    extern "C" __global__ void kernel(int* y, int* lock) {
      while (atomicCAS(lock, 0, 1) != 0) {}
      __threadfence();
      *(volatile int*)y = *(volatile int*)y + 1;
      __threadfence();
      atomicExch(lock, 0);
    }"""
    for block, grid in ((1, 1), (16, 2)):
        source_of_run = (
            source
            if block == 1
            else source.replace("*y = 0; *lock = 0", "if (!threadIdx.x && !blockIdx.x) { *y = 0; *lock = 0; }")
        )
        result = run(source_of_run, [Out(I32, 1), Out(I32, 1)], grid=grid, block=block, kernels=["zero", "kernel"])
        assert result.outputs[0][0] == block * grid


def test_named_barriers_of_producer_and_consumer_warps():
    source = """extern "C" __global__ void kernel(int* y) {
      __shared__ int s[32];
      int t = threadIdx.x;
      if (t < 32) { s[t] = t * t; __threadfence_block(); asm volatile("bar.arrive 1, 64;" ::: "memory"); }
      else { asm volatile("bar.sync 1, 64;" ::: "memory"); y[t - 32] = s[63 - t]; }
    }"""
    result = run(source, [Out(I32, 32)], block=64)
    assert result.outputs[0].tolist() == [(31 - t) ** 2 for t in range(32)]


def test_the_last_block_may_read_what_others_wrote_before_a_fence():
    source = """__device__ unsigned done = 0;
    extern "C" __global__ void kernel(int* partial, int* total) {
      __shared__ bool last;
      if (threadIdx.x == 0) {
        partial[blockIdx.x] = blockIdx.x + 1;
        __threadfence();
        last = atomicInc(&done, gridDim.x) == gridDim.x - 1;
      }
      __syncthreads();
      if (last && threadIdx.x == 0) {
        int sum = 0;
        for (int i = 0; i < gridDim.x; i++) sum += partial[i];
        *total = sum;
      }
    }"""
    assert run(source, [Out(I32, 6), Out(I32, 1)], grid=6, block=64).outputs[1][0] == 21


@pytest.mark.parametrize(
    ("call", "fold"),
    [
        ("atomicAdd(y, v)", lambda old, v: old + v),
        ("atomicMax(y, v)", max),
        ("atomicExch(y, v)", lambda old, v: v),
        ("atomicCAS(y, v - 1, v)", lambda old, v: v if old == v - 1 else old),
        ("(int)atomicInc((unsigned*)y, 40)", lambda old, v: 0 if old >= 40 else old + 1),
    ],
)
def test_atomics_on_one_address_act_in_lane_order(call, fold):
    source = f"""extern "C" __global__ void kernel(const int* x, int* seen, int* y) {{
      if (threadIdx.x == 0) *y = 0;
      __syncthreads();
      int v = x[threadIdx.x];
      seen[threadIdx.x] = {call};
    }}"""
    x = np.random.default_rng(1).integers(0, 70, 64).astype(I32)
    x[[0, 5, 9]] = [1, 2, 3]
    old, wanted = 0, []
    for v in x.tolist():
        wanted.append(old)
        old = fold(old, v)
    seen, last = run(source, [x, Out(I32, 64), Out(I32, 1)], block=64).outputs
    assert seen.tolist() == wanted
    assert last[0] == old


def test_float_atomics_round_in_lane_order():
    source = """extern "C" __global__ void kernel(const float* x, float* y) {
      if (threadIdx.x == 0) *y = 0;
      __syncthreads();
      atomicAdd(y, x[threadIdx.x]);
    }"""
    x = RNG.normal(size=96).astype(F32)
    total = F32(0)
    for value in x:
        total += value
    assert run(source, [x, Out(F32, 1)], block=96).outputs[0][0] == total


def test_two_runs_are_identical():
    x = RNG.normal(size=500).astype(F32)
    first, second = (run(ADD, [x, x, Out(F32, 500), I32(500)], grid=2, block=256) for _ in range(2))
    assert first.counters == second.counters
    np.testing.assert_array_equal(first.outputs[0], second.outputs[0])


def test_an_instruction_outside_the_emulator_is_named_before_a_run():
    source = """extern "C" __global__ void kernel(unsigned* y) {
      asm volatile("griddepcontrol.wait;");
    }"""
    with pytest.raises(UnsupportedOpcode, match=r"griddepcontrol\.wait"):
        program_of.__wrapped__(source)
