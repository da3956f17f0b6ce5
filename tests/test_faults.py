"""What the emulator refuses: each kernel has one mistake, and the report says what, where and who."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from emulated import Out, run

from leap_jax.kernels.emulator.machine import Fault, Limits

F32, I32 = np.float32, np.int32
X = np.arange(1024, dtype=F32)


@dataclass(frozen=True)
class Mistake:
    name: str
    body: str  # starts on line 2
    kind: str
    line: int
    words: str
    grid: int = 1
    block: int = 64
    thread: int | None = None
    shared: int = 0


MISTAKES = [
    Mistake(
        "read past the end",
        "y[threadIdx.x] = x[1000 + threadIdx.x];",
        "memory_fault",
        2,
        "read of 4 bytes: element 1024 of in0[1024]",
        thread=24,
    ),
    Mistake(
        "write before the start",
        "y[(int)threadIdx.x - 1] = 1;",
        "memory_fault",
        2,
        "write of 4 bytes: element -1 of out1[1024]",
        thread=0,
    ),
    Mistake(
        "missing guard",
        """int i = blockIdx.x * blockDim.x + threadIdx.x;
y[i] = x[0];""",
        "memory_fault",
        3,
        "element 1024 of out1[1024]",
        grid=17,
        thread=0,
    ),
    Mistake(
        "null pointer",
        """float* p = (float*)(unsigned long long)(x[0] != 0);
y[threadIdx.x] = p[threadIdx.x];""",
        "memory_fault",
        3,
        "null pointer",
    ),
    Mistake(
        "wild pointer",
        """float* p = (float*)((unsigned long long)x ^ 1ull << 50);
y[threadIdx.x] = p[threadIdx.x];""",
        "memory_fault",
        3,
        "in no allocation",
    ),
    Mistake(
        "misaligned float4",
        "((float4*)y)[threadIdx.x] = *(const float4*)(x + 4 * threadIdx.x + 1);",
        "misaligned",
        2,
        "read of 16 bytes: element 1 of in0[1024]",
        thread=0,
    ),
    Mistake(
        "shared overrun",
        """__shared__ float a[64]; __shared__ float b[64];
a[threadIdx.x] = 1; b[threadIdx.x] = 2;
__syncthreads();
y[threadIdx.x] = a[threadIdx.x + 1] + b[0];""",
        "memory_fault",
        5,
        "byte 256 of shared array a[256 bytes]",
        thread=63,
    ),
    Mistake(
        "no dynamic shared memory",
        """extern __shared__ float s[];
s[threadIdx.x] = 1;""",
        "memory_fault",
        3,
        "byte 128 of shared array s[128 bytes]",
        thread=32,
        shared=128,
    ),
    Mistake(
        "uninitialised shared",
        """__shared__ float s[64];
if (threadIdx.x != 7) s[threadIdx.x] = 1;
__syncthreads();
y[threadIdx.x] = s[63 - threadIdx.x];""",
        "uninitialised",
        5,
        "byte 28 of shared array s",
        thread=56,
    ),
    Mistake("uninitialised output", "y[threadIdx.x] += 1;", "uninitialised", 2, "element 0 of out1[1024]", thread=0),
    Mistake(
        "half a word written",
        """((unsigned short*)y)[2 * threadIdx.x] = 1;
x = y;
y[threadIdx.x + 64] = x[threadIdx.x];""",
        "uninitialised",
        4,
        "byte 2 in element 0 of out1",
    ),
    Mistake(
        "uninitialised local",
        """float a[8];
for (int i = 0; i < 8; i++) if (x[i] > 2) a[i] = i;
y[threadIdx.x] = a[(int)x[threadIdx.x] & 7];""",
        "uninitialised",
        4,
        "local array",
        thread=0,
    ),
    Mistake(
        "missing barrier",
        """__shared__ float s[64];
s[threadIdx.x] = x[threadIdx.x];
y[threadIdx.x] = s[63 - threadIdx.x];""",
        "race",
        4,
        "line 3 writes in warp 1, line 4 reads in warp 0",
        thread=0,
    ),
    Mistake(
        "missing second barrier",
        """__shared__ float s[64];
float t = 0;
for (int i = 0; i < 4; i++) {
s[threadIdx.x] = x[threadIdx.x + i];
__syncthreads();
t += s[63 - threadIdx.x];
}
y[threadIdx.x] = t;""",
        "race",
        5,
        "line 7 reads in warp 1, line 5 writes in warp 0",
    ),
    Mistake(
        "race within a store",
        """__shared__ int s[1];
s[0] = threadIdx.x;
__syncthreads();
y[threadIdx.x] = s[0];""",
        "race",
        3,
        "line 3 writes in warp 1, line 3 writes in warp 0",
    ),
    Mistake(
        "global race between warps",
        """y[threadIdx.x] = 1;
y[1000 - threadIdx.x] = y[63 - threadIdx.x];""",
        "race",
        3,
        "global race on element 63 of out1[1024]: line 2 writes in warp 1, line 3 reads in warp 0",
    ),
    Mistake(
        "global race between blocks",
        "y[threadIdx.x] = blockIdx.x;",
        "race",
        2,
        "element 0 of out1[1024]: line 2 writes in another block",
        grid=3,
    ),
    Mistake(
        "sum without atomics",
        """if (threadIdx.x == 0) y[0] = 0;
__syncthreads();
if (threadIdx.x < 32) atomicAdd(y, 1.f);
else y[0] = y[0] + x[1];""",
        "race",
        5,
        "element 0 of out1",
    ),
    Mistake(
        "different barriers",
        """if (threadIdx.x < 32) { y[threadIdx.x] = 2;
__syncthreads();
} else { y[threadIdx.x] = 4;
__syncthreads();
y[threadIdx.x] = 1; }""",
        "barrier",
        5,
        "different __syncthreads() calls: lines 3 and 5",
        thread=32,
    ),
    Mistake(
        "deadlock of two barriers",
        """if (threadIdx.x < 32) asm volatile("bar.sync 1;");
else __syncthreads();""",
        "barrier",
        2,
        "deadlock, threads wait for ever: 32 at line 2 (barrier 1), 32 at line 3 (barrier 0)",
        thread=0,
    ),
    Mistake(
        "deadlock of a shuffle",
        """float v = x[threadIdx.x];
if (threadIdx.x < 16) v = __shfl_xor_sync(~0u, v, 1);
else __syncthreads();
y[threadIdx.x] = v;""",
        "barrier",
        3,
        "16 at line 3 (shfl.sync.bfly.b32), 48 at line 4 (barrier 0)",
        thread=0,
    ),
    Mistake(
        "a mask without the thread",
        "y[threadIdx.x] = __shfl_sync(0xfu, x[threadIdx.x], 0);",
        "barrier",
        2,
        "mask 0xf lacks it",
        thread=4,
    ),
    Mistake(
        "endless loop",
        """volatile float* v = y;
v[threadIdx.x] = 0;
while (v[threadIdx.x] < 1)
  v[threadIdx.x] = 0;""",
        "timeout",
        4,
        "hottest loop is at line",
    ),
    Mistake("trap", "if (x[threadIdx.x] == 40) __trap();", "trap", 2, "ran a trap", thread=40),
    Mistake("assert", "assert(x[threadIdx.x] < 40);", "trap", 2, "assertion `x[threadIdx.x] < 40` failed", thread=40),
]


def fault_of(body: str, *, parameters: str = "const float* x, float* y", device: str = "", **options):
    source = f'{device} extern "C" __global__ void kernel({parameters}) {{\n{body}\n}}'
    limits = Limits(instructions_per_thread=5_000, seconds=20.0)
    with pytest.raises(Fault) as caught:
        run(source, [X, Out(F32, 1024)], limits=limits, **options)
    return caught.value.report


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.name)
def test_mistake(mistake):
    report = fault_of(mistake.body, grid=mistake.grid, block=mistake.block, shared=mistake.shared)
    assert report.kind == mistake.kind, report
    assert mistake.words in report.message, report
    assert "\n" not in report.message
    assert report.kernel == "kernel"
    assert report.line == mistake.line or mistake.kind == "timeout", report
    assert report.block is not None
    if mistake.thread is not None:
        assert report.thread == (mistake.thread, 0, 0), report


def test_the_first_faulty_block_is_named():
    report = fault_of("int i = blockIdx.x * 64 + threadIdx.x;\ny[i] = x[i];", grid=20)
    assert report.block == (16, 0, 0)


def test_endless_recursion_is_a_stack_fault():
    device = """__device__ __noinline__ int f(int n, int* p) {
      p[n & 7] = n;
      return n == -1 ? 0 : f(n + 1, p) * f(n + 2, p) + p[n & 3];
    }"""
    report = fault_of("y[0] = f(0, (int*)y);", device=device, block=1)
    assert report.kind == "stack"
    assert "nested calls" in report.message


def test_the_clock_budget_ends_a_launch():
    source = 'extern "C" __global__ void kernel(volatile float* y) { y[0] = 0; while (y[0] < 1) {} }'
    with pytest.raises(Fault, match=r"timeout: more than 0\.2 seconds"):
        run(source, [Out(F32, 1)], limits=Limits(10**12, 0.2))


ALLOWED = {
    "reads by all warps": """__shared__ float s[64];
s[threadIdx.x] = 1;
__syncthreads();
y[threadIdx.x] = s[0] + s[63];""",
    "the same value by all threads": """__shared__ int flag;
flag = 1;
__syncthreads();
y[threadIdx.x] = flag;""",
    "the same value by all blocks": "y[threadIdx.x] = 3;",
    "bytes of one word by two warps": """__shared__ unsigned char s[66];
s[threadIdx.x + 2] = threadIdx.x;
__syncthreads();
y[threadIdx.x] = s[65 - threadIdx.x];""",
    "guarded overrun": """int i = threadIdx.x * 30;
if (i < 1024) y[i] = x[i];""",
    "a barrier in a uniform branch": """if (x[3] == 3) __syncthreads();
y[threadIdx.x] = 1;""",
    "a hand-over within a warp after __syncwarp": """__shared__ float s[64];
s[threadIdx.x] = 1;
__syncwarp();
y[threadIdx.x] = s[threadIdx.x ^ 1];""",
    "a hand-over within a warp after a shuffle": """__shared__ float s[64];
s[threadIdx.x] = 1;
float v = __shfl_xor_sync(~0u, x[threadIdx.x], 1);
y[threadIdx.x] = s[threadIdx.x ^ 1] + v;""",
    "a thread reads what it wrote": """__shared__ float s[64];
s[threadIdx.x] = 1;
s[threadIdx.x] += x[threadIdx.x];
y[threadIdx.x] = s[threadIdx.x];""",
    "half a warp synchronises": """__shared__ float s[64];
s[threadIdx.x] = 1;
if (threadIdx.x % 32 < 16) { __syncwarp(0xffff); y[threadIdx.x] = s[threadIdx.x ^ 1]; }""",
    "counters in shared memory": """__shared__ int count;
if (threadIdx.x == 0) count = 0;
__syncthreads();
int seen = atomicAdd(&count, 1) + atomicAdd(&count, 1);
y[threadIdx.x] = seen;""",
    "early return before a barrier": """if (threadIdx.x >= 40) return;
__syncthreads();
y[threadIdx.x] = 1;""",
    "in place after a barrier": """y[threadIdx.x] = 1;
__syncthreads();
float v = y[63 - threadIdx.x];
__syncthreads();
y[threadIdx.x] = v + 1;""",
}


@pytest.mark.parametrize("body", ALLOWED.values(), ids=ALLOWED.keys())
def test_what_is_allowed_raises_no_fault(body):
    source = f'extern "C" __global__ void kernel(const float* x, float* y) {{\n{body}\n}}'
    blocks = 3 if body == ALLOWED["the same value by all blocks"] else 1
    assert run(source, [X, Out(F32, 1024)], grid=blocks, block=64).defined[0].any()
