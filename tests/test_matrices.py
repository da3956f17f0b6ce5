"""Tensor-core instructions against plain loops over the layouts of the PTX ISA, in fractions and integers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from emulated import Out, ptx_kernel, run

from leap_jax.kernels.emulator.isa import UnsupportedOpcode
from leap_jax.kernels.emulator.machine import Fault, prepare
from leap_jax.kernels.emulator.ptx import parse

U32, U64 = np.uint32, np.uint64
RNG = np.random.default_rng(5)
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "s32": 32, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "f64": 64}


def value(kind: str, bits: int) -> Fraction:
    """What the bits of a finite element stand for, from the definition of its format."""
    if kind in ("s8", "u8", "s32"):
        width = BITS[kind]
        return Fraction(bits - (1 << width) if kind[0] == "s" and bits >> (width - 1) else bits)
    exponent_bits, fraction_bits = {
        "f16": (5, 10), "bf16": (8, 7), "tf32": (8, 23), "f32": (8, 23), "f64": (11, 52),
        "e4m3": (4, 3), "e5m2": (5, 2),
    }[kind]  # fmt: skip
    if kind == "tf32":
        bits &= ~0x1FFF
    fraction = bits & ((1 << fraction_bits) - 1)
    exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    significand = fraction + ((1 << fraction_bits) if exponent else 0)
    size = significand * Fraction(2) ** (max(exponent, 1) - bias - fraction_bits)
    return -size if bits >> (exponent_bits + fraction_bits) else size


def element_bits(kind: str, count: int) -> list[int]:
    """Random finite elements, some of them zero."""
    numbers = {
        "f16": lambda: RNG.normal(size=count).astype(np.float16).view(np.uint16),
        "bf16": lambda: (RNG.normal(size=count).astype(np.float32).view(U32) >> 16).astype(np.uint16),
        "tf32": lambda: RNG.normal(size=count).astype(np.float32).view(U32),
        "f32": lambda: RNG.normal(size=count).astype(np.float32).view(U32),
        "f64": lambda: RNG.normal(size=count).view(U64),
        "s32": lambda: RNG.integers(0, 2**32, count, U32),
        "e5m2": lambda: RNG.integers(0, 0x60, count) | (RNG.integers(0, 2, count) << 7),
        "e4m3": lambda: RNG.integers(0, 0x7F, count) | (RNG.integers(0, 2, count) << 7),
    }.get(kind, lambda: RNG.integers(0, 256, count))()
    return [0 if RNG.random() < 0.1 else int(b) for b in numbers]


def words_of(lanes: list[list[int]], width: int) -> np.ndarray:
    """Elements of each lane packed into registers, low first."""
    per = max(32 // width, 1)
    register = U64 if width == 64 else U32
    packed = [
        [sum(e << (width * j) for j, e in enumerate(lane[i : i + per])) for i in range(0, len(lane), per)]
        for lane in lanes
    ]
    return np.array(packed, register).ravel()


def elements_of(words: np.ndarray, width: int) -> list[list[int]]:
    return [[int(x) for x in lane] for lane in words.view(f"u{width // 8}").reshape(32, -1)]


def a_place(lane: int, i: int, m: int, width: int) -> tuple[int, int]:
    """Row and column of element i of operand a, as the figures of the ISA say."""
    per = max(32 // width, 1)
    register, j = divmod(i, per)
    high_row, high_column = (register % 2, register // 2) if m == 16 else (0, register)
    return lane // 4 + 8 * high_row, lane % 4 * per + j + 4 * per * high_column


def b_place(lane: int, i: int, width: int) -> tuple[int, int]:
    per = max(32 // width, 1)
    register, j = divmod(i, per)
    return lane % 4 * per + j + 4 * per * register, lane // 4


def c_place(lane: int, i: int) -> tuple[int, int]:
    return lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2


def registers(name: str, count: int) -> str:
    return "{" + ", ".join(f"%{name}{i}" for i in range(count)) + "}"


def load_all(name: str, pointer: str, count: int, width: int) -> str:
    bits = 64 if width == 64 else 32
    size = bits // 8
    lines = [f"mad.wide.u32 %at, %t, {count * size}, %{pointer};"]
    lines += [f"ld.global.b{bits} %{name}{i}, [%at+{i * size}];" for i in range(count)]
    return "\n".join(lines)


def mma_kernel(opcode: str, counts: dict[str, int], widths: dict[str, int]) -> str:
    declared = "".join(f".reg .b{64 if widths[n] == 64 else 32} %{n}<{c}>;\n" for n, c in counts.items())
    size = 8 if widths["d"] == 64 else 4
    stores = "\n".join(f"st.global.b{8 * size} [%at+{i * size}], %d{i};" for i in range(counts["d"]))
    return ptx_kernel(
        ".param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd",
        f"""{declared}.reg .b64 %at, %qa, %qb, %qc, %qd; .reg .b32 %t;
        ld.param.u64 %qa, [pa]; ld.param.u64 %qb, [pb]; ld.param.u64 %qc, [pc]; ld.param.u64 %qd, [pd];
        mov.u32 %t, %tid.x;
        {load_all("a", "qa", counts["a"], widths["a"])}
        {load_all("b", "qb", counts["b"], widths["b"])}
        {load_all("c", "qc", counts["c"], widths["c"])}
        {opcode} {registers("d", counts["d"])}, {registers("a", counts["a"])}, {registers("b", counts["b"])},
          {registers("c", counts["c"])};
        mad.wide.u32 %at, %t, {counts["d"] * size}, %qd;
        {stores}
        ret;""",
    )


MMA = [
    ("m16n8k16", "f32.f16.f16.f32"), ("m16n8k8", "f32.f16.f16.f32"), ("m16n8k16", "f16.f16.f16.f16"),
    ("m16n8k16", "f32.bf16.bf16.f32"), ("m16n8k8", "f32.bf16.bf16.f32"), ("m16n8k8", "f32.tf32.tf32.f32"),
    ("m16n8k4", "f32.tf32.tf32.f32"), ("m16n8k32", "s32.s8.s8.s32"), ("m16n8k16", "s32.s8.u8.s32"),
    ("m8n8k16", "s32.u8.u8.s32"), ("m16n8k32", "satfinite.s32.u8.s8.s32"), ("m16n8k32", "f32.e4m3.e5m2.f32"),
    ("m16n8k16", "f32.e5m2.e4m3.f32"), ("m8n8k4", "f64.f64.f64.f64"), ("m16n8k8", "f64.f64.f64.f64"),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "types"), MMA, ids=lambda x: x)
def test_mma_is_the_product_of_the_laid_out_matrices(shape, types):
    m, n, k = (int(x) for x in shape[1:].replace("n", " ").replace("k", " ").split())
    d_kind, a_kind, b_kind, c_kind = types.removeprefix("satfinite.").split(".")
    width = {"a": BITS[a_kind], "b": BITS[b_kind], "c": BITS[c_kind], "d": BITS[d_kind]}
    size = {"a": m * k // 32, "b": k * n // 32, "c": m * n // 32, "d": m * n // 32}
    kinds = {"a": a_kind, "b": b_kind, "c": c_kind}
    lanes = {x: [element_bits(kinds[x], size[x]) for _ in range(32)] for x in "abc"}
    a, b, c = ({} for _ in range(3))
    for lane in range(32):
        a |= {a_place(lane, i, m, width["a"]): value(a_kind, e) for i, e in enumerate(lanes["a"][lane])}
        b |= {b_place(lane, i, width["b"]): value(b_kind, e) for i, e in enumerate(lanes["b"][lane])}
        c |= {c_place(lane, i): value(c_kind, e) for i, e in enumerate(lanes["c"][lane])}
    assert len(a) == m * k
    assert len(b) == k * n
    counts = {x: -(-size[x] * width[x] // (64 if width[x] == 64 else 32)) for x in "abcd"}
    source = mma_kernel(f"mma.sync.aligned.{shape}.row.col.{types}", counts, width)
    inputs = [words_of(lanes[x], width[x]) for x in "abc"]
    out = run(source, [*inputs, Out(U64 if width["d"] == 64 else U32, 32 * counts["d"])]).outputs[0]
    for lane, elements in enumerate(elements_of(out, width["d"])):
        for i, got in enumerate(elements):
            row, column = c_place(lane, i)
            terms = [a[row, x] * b[x, column] for x in range(k)]
            wanted = c[row, column] + sum(terms)
            if d_kind == "s32":
                low, high = -(2**31), 2**31 - 1
                wanted = min(max(wanted, low), high) if "sat" in types else (int(wanted) - low) % 2**32 + low
                assert value("s32", got) == wanted
                continue
            scale = abs(c[row, column]) + sum(map(abs, terms))
            ulp = {"f16": Fraction(1, 2**11), "f32": Fraction(1, 2**24), "f64": Fraction(k, 2**53)}[d_kind]
            slack = Fraction(1, 2**45) * scale if d_kind != "f64" else ulp * scale
            assert abs(value(d_kind, got) - wanted) <= ulp * abs(wanted) + slack + Fraction(1, 2**25)


def test_mma_of_infinities_and_nans():
    counts = {"a": 4, "b": 2, "c": 4, "d": 4}
    source = mma_kernel(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", counts, {"a": 16, "b": 16, "c": 32, "d": 32}
    )
    a, b, c = np.zeros((32, 8), np.float16), np.zeros((32, 4), np.float16), np.zeros((32, 4), np.float32)
    a[0, 0] = np.inf  # row 0, column 0
    b[0, 0], b[4, 0] = 2, np.nan  # row 0, columns 0 and 1
    out = run(source, [a.ravel().view(U32), b.ravel().view(U32), c.ravel().view(U32), Out(np.float32, 128)]).outputs[0]
    assert out[0] == np.inf
    assert np.isnan(out[1])
    assert np.isnan(out[4 : 4 * 4 : 4]).all()  # infinity times zero in the rest of the row
    assert (out[16:] == 0).sum() + np.isnan(out[16:]).sum() == 112


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transpose", [False, True])
def test_ldmatrix(count, transpose):
    suffix = ".trans" if transpose else ""
    stores = "\n".join(f"st.global.b32 [%at+{4 * i}], %r{i};" for i in range(count))
    source = ptx_kernel(
        ".param .u64 px, .param .u64 py",
        f""".reg .b32 %r<4>, %t, %v, %s; .reg .b64 %x, %y, %at; .shared .align 16 .b8 tile[512];
        ld.param.u64 %x, [px]; ld.param.u64 %y, [py]; mov.u32 %t, %tid.x; mov.u32 %s, tile;
        mad.wide.u32 %at, %t, 16, %x; mad.lo.u32 %s, %t, 16, %s;
        ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%at]; st.shared.v4.b32 [%s], {{%r0, %r1, %r2, %r3}};
        bar.warp.sync 0xffffffff;
        ldmatrix.sync.aligned.m8n8.x{count}{suffix}.shared.b16 {registers("r", count)}, [%s];
        mad.wide.u32 %at, %t, {4 * count}, %y;
        {stores}
        ret;""",
    )
    tiles = RNG.integers(0, 2**16, (4, 8, 8), np.uint16)
    out = run(source, [tiles.ravel().view(U32), Out(U32, 32 * count)]).outputs[0].view(np.uint16).reshape(32, count, 2)
    for lane in range(32):
        for matrix in range(count):
            for j in range(2):
                row, column = lane // 4, lane % 4 * 2 + j
                place = (column, row) if transpose else (row, column)
                assert out[lane, matrix, j] == tiles[matrix][place]


@pytest.mark.parametrize("transpose", [False, True])
def test_stmatrix_and_movmatrix(transpose):
    suffix = ".trans" if transpose else ""
    move = "movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r0;" if transpose else ""
    source = ptx_kernel(
        ".param .u64 px, .param .u64 py",
        f""".reg .b32 %r<4>, %t, %s; .reg .b64 %x, %y, %at; .shared .align 16 .b8 tile[256];
        ld.param.u64 %x, [px]; ld.param.u64 %y, [py]; mov.u32 %t, %tid.x; mov.u32 %s, tile;
        mad.wide.u32 %at, %t, 8, %x; ld.global.v2.b32 {{%r0, %r1}}, [%at]; mad.lo.u32 %s, %t, 16, %s;
        {move}
        stmatrix.sync.aligned.m8n8.x2{suffix}.shared.b16 [%s], {{%r0, %r1}};
        bar.warp.sync 0xffffffff;
        mov.u32 %s, tile; mad.lo.u32 %s, %t, 8, %s; ld.shared.v2.b32 {{%r2, %r3}}, [%s];
        mad.wide.u32 %at, %t, 8, %y; st.global.v2.b32 [%at], {{%r2, %r3}};
        ret;""",
    )
    x = RNG.integers(0, 2**32, (32, 2), U32)
    tiles = run(source, [x.ravel(), Out(U32, 64)]).outputs[0].view(np.uint16).reshape(2, 8, 8)
    halves = x.view(np.uint16).reshape(32, 2, 2)
    for lane in range(32):
        for j in range(2):
            row, column = lane // 4, lane % 4 * 2 + j
            assert tiles[0][row, column] == halves[lane, 0, j]  # stored transposed, moved transposed before: as it was
            assert tiles[1][(column, row) if transpose else (row, column)] == halves[lane, 1, j]


WMMA = [
    ("m16n16k16", "f16", "f32", (8, 8, 8)), ("m32n8k16", "f16", "f16", (8, 8, 4)),
    ("m8n32k16", "f16", "f32", (8, 8, 8)),
    ("m16n16k16", "bf16", "f32", (4, 4, 8)), ("m32n8k16", "bf16", "f32", (8, 2, 8)),
    ("m16n16k8", "tf32", "f32", (4, 4, 8)),
    ("m16n16k16", "s8", "s32", (2, 2, 8)), ("m8n32k16", "u8", "s32", (1, 4, 8)), ("m8n8k4", "f64", "f64", (1, 1, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "kind", "total", "counts"), WMMA, ids=lambda x: str(x))
@pytest.mark.parametrize("layouts", ["row.col.row", "col.row.col"])
def test_wmma_is_a_product_of_matrices_in_memory(shape, kind, total, counts, layouts):
    m, n, k = (int(x) for x in shape[1:].replace("n", " ").replace("k", " ").split())
    la, lb, lc = layouts.split(".")
    ra, rb, rc = counts
    wide = 64 if kind == "f64" else 32
    operands = {"f16": f"{total}.{total}"}.get(kind, f"{total}.{kind}.{kind}.{total}")
    rounding = ".rn" if kind == "f64" else ""
    lda, ldb, ldc = (
        -(-x // 16) * 16 + 16 for x in (k if la == "row" else m, n if lb == "row" else k, n if lc == "row" else m)
    )
    inner = n if lc == "row" else m
    source = ptx_kernel(
        ".param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd",
        f""".reg .b{wide} %a<{ra}>, %b<{rb}>, %c<{rc}>; .reg .b64 %qa, %qb, %qc, %qd; .reg .b32 %l;
        ld.param.u64 %qa, [pa]; ld.param.u64 %qb, [pb]; ld.param.u64 %qc, [pc]; ld.param.u64 %qd, [pd];
        mov.u32 %l, {ldc};
        wmma.load.a.sync.aligned.{la}.{shape}.global.{kind} {registers("a", ra)}, [%qa], {lda};
        wmma.load.b.sync.aligned.{lb}.{shape}.{kind} {registers("b", rb)}, [%qb], {ldb};
        wmma.load.c.sync.aligned.{lc}.{shape}.{total} {registers("c", rc)}, [%qc], %l;
        wmma.mma.sync.aligned.{la}.{lb}.{shape}{rounding}.{operands} {registers("c", rc)}, {registers("a", ra)},
          {registers("b", rb)}, {registers("c", rc)};
        wmma.store.d.sync.aligned.{lc}.{shape}.{total} [%qd], {registers("c", rc)}, %l;
        ret;""",
    )

    def memory(rows: int, cols: int, layout: str, name: str, pitch: int) -> np.ndarray:
        extent = (rows if layout == "row" else cols, pitch)
        bits = np.array(element_bits(name, extent[0] * extent[1]))
        return bits.astype(f"u{BITS[name] // 8}").reshape(extent)

    def element(array: np.ndarray, layout: str, row: int, col: int, name: str) -> Fraction:
        return value(name, int(array[row, col] if layout == "row" else array[col, row]))

    a, b, c = memory(m, k, la, kind, lda), memory(k, n, lb, kind, ldb), memory(m, n, lc, total, ldc)
    size = (m if lc == "row" else n) * ldc
    result = run(source, [a.ravel(), b.ravel(), c.ravel(), Out(f"u{BITS[total] // 8}", size)], block=32)
    d, written = result.outputs[0].reshape(-1, ldc), result.defined[0].reshape(-1, ldc)
    assert written.sum() == m * n
    assert written[:, :inner].all()
    for row in range(m):
        for col in range(n):
            terms = [element(a, la, row, x, kind) * element(b, lb, x, col, kind) for x in range(k)]
            wanted = element(c, lc, row, col, total) + sum(terms)
            got = element(d, lc, row, col, total)
            if total == "s32":
                wanted = (int(wanted) + 2**31) % 2**32 - 2**31
            ulp = {"f16": 2**-11, "f32": 2**-24, "f64": 2**-49, "s32": 0}[total]
            assert abs(got - wanted) <= Fraction(ulp) * (abs(wanted) + 1)


@pytest.mark.parametrize(
    ("opcode", "operands"),
    [
        ("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32", ("d", 8, "a", 2, "b", 2, "d", 8)),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s4.s4.s32", ("d", 4, "a", 2, "b", 1, "d", 4)),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", ("d", 4, "a", 4, "b", 1, "d", 4)),
    ],
)
def test_other_shapes_are_unsupported_by_name(opcode, operands):
    text = ", ".join(registers(name, count) for name, count in zip(operands[::2], operands[1::2], strict=True))
    source = ptx_kernel("", f".reg .b32 %d<8>, %a<4>, %b<2>; {opcode} {text};")
    with pytest.raises(UnsupportedOpcode, match=opcode.replace(".", r"\.")):
        prepare(parse(source))


def test_a_part_of_a_warp_cannot_multiply():
    counts = {"a": 4, "b": 2, "c": 4, "d": 4}
    source = mma_kernel(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", counts, {"a": 16, "b": 16, "c": 32, "d": 32}
    )
    x = np.zeros(512, U32)
    with pytest.raises(Fault, match="barrier: mma needs all 32 threads of a warp, this one has 16"):
        run(source, [x, x, x, Out(U32, 512)], block=48)


def test_a_misaligned_matrix_is_named():
    source = ptx_kernel(
        ".param .u64 p",
        """.reg .b32 %a<8>; .reg .b64 %p; ld.param.u64 %p, [p];
        wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7}, [%p+OFFSET], 24;""",
    )
    x = np.zeros(2048, np.float16)
    run(source.replace("OFFSET", "32"), [x])
    with pytest.raises(Fault, match=r"misaligned: wmma\.load of a matrix"):
        run(source.replace("OFFSET", "8"), [x])
    with pytest.raises(Fault, match="misaligned"):
        run(source.replace("OFFSET", "0").replace(", 24;", ", 20;"), [x])


PTX_OF_A_PRODUCT = mma_kernel(
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    {"a": 4, "b": 2, "c": 4, "d": 4},
    {"a": 16, "b": 16, "c": 32, "d": 32},
)
