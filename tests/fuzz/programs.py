"""Random kernels, straight-line and structured, as CUDA and as NumPy: both must compute the same bits.

By hand: `python -m tests.fuzz.programs [count] [seed]`; a small slice runs in tests/test_fuzz.py. A program depends on
the seed and its number alone. Programs have unsigned, signed and f32 variables; every float operation rounds once
by IEEE, so that NumPy's float32 is an independent computation. Many programs share a compile.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

LANES = 96
VARIABLES = 4  # of each type
BATCH = 25  # programs in one compile
_C_TYPES = {"u": "unsigned", "i": "int", "f": "float"}
_DTYPES = {"u": np.dtype(np.uint32), "i": np.dtype(np.int32), "f": np.dtype(np.float32)}
_WORD = np.uint32(0xFFFFFFFF)

Mirror = Callable[..., np.ndarray]
# (result type, operand types, CUDA, NumPy)
OPERATIONS: list[tuple[str, str, str, Mirror]] = [
    *(("u", "uu", f"({{0}} {op} {{1}})", f) for op, f in zip("+-*&|^", (
        np.add, np.subtract, np.multiply, np.bitwise_and, np.bitwise_or, np.bitwise_xor), strict=True)),
    ("u", "uu", "({0} / ({1} | 1u))", lambda a, b: a // (b | np.uint32(1))),
    ("u", "uu", "({0} % ({1} | 1u))", lambda a, b: a % (b | np.uint32(1))),
    ("u", "uu", "({0} << ({1} & 31u))", lambda a, b: a << (b & np.uint32(31))),
    ("u", "uu", "({0} >> ({1} & 31u))", lambda a, b: a >> (b & np.uint32(31))),
    ("u", "uu", "__umulhi({0}, {1})", lambda a, b: (a.astype(np.uint64) * b >> np.uint64(32)).astype(np.uint32)),
    ("u", "uu", "min({0}, {1})", np.minimum),
    ("u", "u", "(unsigned)__popc({0})", lambda a: np.bitwise_count(a).astype(np.uint32)),
    ("u", "u", "(unsigned)__clz({0})", lambda a: np.array([32 - int(v).bit_length() for v in a], np.uint32)),
    ("u", "u", "__brev({0})", lambda a: np.array([int(f"{v:032b}"[::-1], 2) for v in a.tolist()], np.uint32)),
    ("u", "uuu", "__funnelshift_l({0}, {1}, {2})", lambda a, b, c: (
        ((b.astype(np.uint64) << np.uint64(32) | a) << (c & np.uint32(31)).astype(np.uint64)) >> np.uint64(32)
    ).astype(np.uint32)),
    ("u", "uu", "(({0} < {1}) ? 7u : {0})", lambda a, b: np.where(a < b, np.uint32(7), a)),
    ("u", "i", "(unsigned){0}", lambda a: a.view(np.uint32)),
    ("u", "f", "__float_as_uint({0} == {0} ? {0} : 0.0f)", lambda a: np.where(
        a == a, a, np.float32(0)).view(np.uint32)),
    ("u", "f", "__float2uint_rz({0})", lambda a: np.where(a == a, np.clip(
        np.trunc(a.astype(np.float64)), 0, 2**32 - 1), 0).astype(np.uint32)),
    ("i", "u", "(int){0}", lambda a: a.view(np.int32)),
    ("i", "ii", "max({0}, {1})", np.maximum),
    ("i", "ii", "(int)((unsigned){0} + (unsigned){1})", lambda a, b: (
        a.view(np.uint32) + b.view(np.uint32)).view(np.int32)),
    ("i", "ii", "(({0} & 0xffff) / (({1} & 0xff) - 300))", lambda a, b: np.trunc(
        (a & 0xFFFF) / ((b & 0xFF) - 300).astype(np.float64)).astype(np.int32)),
    ("i", "iu", "({0} >> ({1} & 31u))", lambda a, b: a >> (b & np.uint32(31)).view(np.int32)),
    ("i", "ii", "(({0} > {1}) ? {0} : -({1} & 0xffff))", lambda a, b: np.where(a > b, a, -(b & 0xFFFF))),
    ("i", "f", "__float2int_rn({0})", lambda a: np.where(a == a, np.clip(
        np.rint(a.astype(np.float64)), -(2**31), 2**31 - 1), 0).astype(np.int32)),
    ("f", "ff", "__fadd_rn({0}, {1})", np.add),
    ("f", "ff", "__fsub_rn({0}, {1})", np.subtract),
    ("f", "ff", "__fmul_rn({0}, {1})", np.multiply),
    ("f", "ff", "__fdiv_rn({0}, {1})", np.divide),
    ("f", "f", "__fsqrt_rn({0})", np.sqrt),
    ("f", "f", "floorf({0})", np.floor),
    ("f", "f", "rintf({0})", np.rint),
    ("f", "f", "fabsf({0})", np.abs),
    ("f", "ff", "(({0} <= {1}) ? {1} : {0})", lambda a, b: np.where(a <= b, b, a)),
    ("f", "i", "(float){0}", lambda a: a.astype(np.float32)),
    ("f", "u", "__uint2float_rn({0})", lambda a: a.astype(np.float32)),
    ("f", "f", "__half2float(__float2half({0}))", lambda a: a.astype(np.float16).astype(np.float32)),
]  # fmt: skip


@dataclass
class Program:
    """The body under construction, and the steps that do the same to NumPy arrays."""

    rng: np.random.Generator
    lines: list[str] = field(default_factory=list)
    loops: int = 0

    def variable(self, kind: str) -> str:
        return f"{kind}{self.rng.integers(VARIABLES)}"

    def block(self, depth: int, count: int) -> list[Callable[[dict, np.ndarray], None]]:
        """`count` statements; the steps take the variables and which lanes are active."""
        steps = []
        for _ in range(count):
            choice = self.rng.random()
            if depth and choice < 0.15:
                steps.append(self._branch(depth))
            elif depth and choice < 0.25:
                steps.append(self._loop(depth))
            else:
                steps.append(self._assignment())
        return steps

    def _assignment(self) -> Callable[[dict, np.ndarray], None]:
        kind, operands, cuda, mirror = OPERATIONS[self.rng.integers(len(OPERATIONS))]
        target, sources = self.variable(kind), [self.variable(k) for k in operands]
        self.lines.append(f"{target} = {cuda.format(*sources)};")

        def step(state: dict, active: np.ndarray) -> None:
            result = mirror(*(state[s] for s in sources)).astype(_DTYPES[kind], copy=False)
            state[target] = np.where(active, result, state[target])

        return step

    def _condition(self) -> tuple[str, Callable[[dict], np.ndarray]]:
        if self.rng.random() < 0.5:
            a, b = self.variable("u"), self.variable("u")
            return f"({a} & 3u) < ({b} & 3u)", lambda s: (s[a] & np.uint32(3)) < (s[b] & np.uint32(3))
        a, b = self.variable("f"), self.variable("f")
        return f"{a} < {b}", lambda s: s[a] < s[b]

    def _branch(self, depth: int) -> Callable[[dict, np.ndarray], None]:
        text, condition = self._condition()
        self.lines.append(f"if ({text}) {{")
        first = self.block(depth - 1, int(self.rng.integers(1, 4)))
        self.lines.append("} else {")
        second = self.block(depth - 1, int(self.rng.integers(0, 3)))
        self.lines.append("}")

        def step(state: dict, active: np.ndarray) -> None:
            chosen = condition(state)
            for run in first:
                run(state, active & chosen)
            for run in second:
                run(state, active & ~chosen)

        return step

    def _loop(self, depth: int) -> Callable[[dict, np.ndarray], None]:
        """Each lane has a trip count of its own, and may break."""
        counter, bound = f"k{self.loops}", self.variable("u")
        self.loops += 1
        self.lines.append(f"for (unsigned {counter} = 0, end = {bound} & 7u; {counter} < end; ++{counter}) {{")
        body = self.block(depth - 1, int(self.rng.integers(1, 4)))
        text, condition = self._condition()
        self.lines += [f"if ({text}) break;", "}"]

        def step(state: dict, active: np.ndarray) -> None:
            trips = state[bound] & np.uint32(7)  # read once, before the body may change it
            running = active
            for trip in range(7):
                running = running & (trip < trips)
                for run in body:
                    run(state, running)
                running = running & ~condition(state)

        return step


def make(seed: int, number: int) -> tuple[str, list[Callable]]:
    """The body of a kernel, and its steps on NumPy arrays."""
    program = Program(np.random.default_rng((seed, number)))
    steps = program.block(depth=2, count=14)
    return "\n  ".join(program.lines), steps


def kernel(name: str, body: str) -> str:
    parameters = ", ".join(f"const {_C_TYPES[k]}* {k}in" for k in "uif") + ", unsigned* out"
    names = [f"{k}{i}" for k in "uif" for i in range(VARIABLES)]
    loads = " ".join(f"{_C_TYPES[n[0]]} {n} = {n[0]}in[{n[1]} * {LANES} + t];" for n in names)
    stores = " ".join(
        f"out[{i} * {LANES} + t] = {'__float_as_uint(' + n + ')' if n[0] == 'f' else '(unsigned)' + n};"
        for i, n in enumerate(names)
    )
    head = f'extern "C" __global__ void {name}({parameters}) {{\n  int t = threadIdx.x;\n'
    return f"{head}  {loads}\n  {body}\n  {stores}\n}}\n"


def inputs(seed: int) -> dict[str, np.ndarray]:
    """(variables, lanes) of each type: small and large integers; floats of every size, and special ones."""
    rng = np.random.default_rng((seed, 1 << 20))
    shape = (VARIABLES, LANES)
    integers = rng.integers(0, 2**32, shape, np.uint32) >> rng.integers(0, 32, shape, np.uint32)
    floats = (rng.standard_normal(shape) * 10.0 ** rng.integers(-6, 7, shape)).astype(np.float32)
    floats[:, :6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40]
    return {"u": integers, "i": rng.permutation(integers.view(np.int32).ravel()).reshape(shape), "f": floats}


def check(seed: int, numbers: range) -> int:
    """How many programs agreed. Raises AssertionError with the text of the first that does not."""
    from emulated import Out, run

    data = inputs(seed)
    for first in range(numbers.start, numbers.stop, BATCH):
        batch = {number: make(seed, number) for number in range(first, min(first + BATCH, numbers.stop))}
        source = "#include <cuda_fp16.h>\n" + "".join(kernel(f"k{number}", body) for number, (body, _) in batch.items())
        for number, (body, steps) in batch.items():
            args = [*(data[k].ravel() for k in "uif"), Out(np.uint32, 3 * VARIABLES * LANES)]
            got = run(source, args, block=LANES, kernels=[f"k{number}"]).outputs[0].reshape(3, VARIABLES, LANES)
            state = {f"{k}{i}": data[k][i] for k in "uif" for i in range(VARIABLES)}
            with np.errstate(all="ignore"):
                for step in steps:
                    step(state, np.ones(LANES, bool))
            for row, kind in enumerate("uif"):
                for i in range(VARIABLES):
                    here, wanted = got[row, i].view(_DTYPES[kind]), state[f"{kind}{i}"]
                    same = (got[row, i] == wanted.view(np.uint32)) | ((here != here) & (wanted != wanted))
                    assert same.all(), (
                        f"program {number} of seed {seed}, {kind}{i} of thread {int(np.argmin(same))}: "
                        f"{here[~same][0]!r}, NumPy has {wanted[~same][0]!r}\n{body}"
                    )
    return len(numbers)


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    count, seed = (int(x) for x in (*sys.argv[1:], *("10000", "0")[len(sys.argv) - 1 :]))
    start = time.perf_counter()
    print(f"{check(seed, range(count))} programs agree, seed {seed}, {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
