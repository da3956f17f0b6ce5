"""The instructions of tensor cores: mma, wmma, ldmatrix, stmatrix, movmatrix. Layouts and products: fragments.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from leap_jax.kernels.emulator import ir
from leap_jax.kernels.emulator.fragments import (
    BITS,
    Fragment,
    loaded_rows,
    mma_fragment,
    moved,
    product,
    stored_rows,
    wmma_fragment,
)
from leap_jax.kernels.emulator.isa import UnsupportedOpcode
from leap_jax.kernels.emulator.memory_ops import access_of, address_of, columns, read, write
from leap_jax.kernels.emulator.operands import Layout, flatten
from leap_jax.kernels.emulator.warp import ALL_LANES, WARP, WarpOperation

if TYPE_CHECKING:
    from leap_jax.kernels.emulator.wave import Control, Frame, Lanes, Step

_MMA_SHAPES = {  # element type of a and b -> shapes
    "f16": ("m16n8k8", "m16n8k16"),
    "bf16": ("m16n8k8", "m16n8k16"),
    "tf32": ("m16n8k4", "m16n8k8"),
    "f64": ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"),
    "s8": ("m8n8k16", "m16n8k16", "m16n8k32"),
    "u8": ("m8n8k16", "m16n8k16", "m16n8k32"),
    "e4m3": ("m16n8k16", "m16n8k32"),
    "e5m2": ("m16n8k16", "m16n8k32"),
}
_WMMA_SHAPES = {
    **dict.fromkeys(("f16", "bf16", "s8", "u8"), ("m16n16k16", "m8n32k16", "m32n8k16")),
    "tf32": ("m16n16k8",),
    "f64": ("m8n8k4",),
}
_FAMILIES = {"f16": "half", "bf16": "brain", "s8": "byte", "u8": "byte", "e4m3": "f8", "e5m2": "f8"}
_RESULTS = {"half": ("f16", "f32"), "byte": ("s32",), "f64": ("f64",), "f8": ("f16", "f32")}  # others: f32
_FLAGS = frozenset({"sync", "aligned", "row", "col", "mma", "load", "store", "a", "b", "c", "d", "satfinite", "rn"})
_MULTIPLE = 16  # bytes: of a matrix's address and of its pitch


def matrix_control(instruction: ir.Instruction, layout: Layout, pc: int) -> Control:
    """The control of mma, wmma.mma, ldmatrix, stmatrix or movmatrix. Raises UnsupportedOpcode."""
    if instruction.opcode in ("ldmatrix", "stmatrix"):
        return _row_exchange(instruction, layout, pc)
    if instruction.opcode == "movmatrix":
        if instruction.modifiers != ("sync", "aligned", "m8n8", "trans", "b16"):
            raise UnsupportedOpcode(instruction)
        operation = WarpOperation(instruction.name, lambda values, *_: (_full(moved, values[0]),), ("b32",))
        return _meeting(instruction, layout, operation, instruction.operands[1:], instruction.operands[:1], pc)
    a, b, c, d = _operand_fragments(instruction)
    _, left, right, addend = operands = [flatten([o]) for o in instruction.operands]
    if [len(o) for o in operands] != [f.registers for f in (d, a, b, c)]:
        raise UnsupportedOpcode(instruction)
    saturate = "satfinite" in instruction.modifiers
    ends = len(left), len(left) + len(right)

    def compute(values: Sequence[np.ndarray], masks: np.ndarray, present: np.ndarray) -> tuple[np.ndarray, ...]:
        x = a.matrix(values[: ends[0]], present.shape)
        y = b.matrix(values[ends[0] : ends[1]], present.shape)
        z = c.matrix(values[ends[1] :], present.shape)
        return tuple(d.words(product(x, y, z, d.type, saturate)))

    codes = (a.code,) * len(left) + (b.code,) * len(right) + (c.code,) * len(addend)
    operation = WarpOperation(instruction.name, compute, codes)
    return _meeting(instruction, layout, operation, [*left, *right, *addend], operands[0], pc, d.code)


def _full(function: Callable[[np.ndarray], np.ndarray], value: np.ndarray) -> np.ndarray:
    return function(np.broadcast_to(value, (value.shape[0], WARP)))


def _meeting(
    instruction: ir.Instruction,
    layout: Layout,
    operation: WarpOperation,
    operands: Sequence[ir.Operand | None],
    results: Sequence[ir.Operand | None],
    pc: int,
    code: str = "b32",
) -> Control:
    """A control that waits for the whole warp, then runs the operation."""
    sources = [layout.source(o, c, instruction) for o, c in zip(operands, operation.sources, strict=True)]
    targets = [layout.destination(o, code, instruction) for o in results]
    slots = [None if target is None else target.slot for target in targets]
    masks = np.array([ALL_LANES], np.uint32)

    def meet(frame: Frame, lanes: Lanes, place: int) -> int | None:
        _require_whole_warps(frame, lanes, instruction)
        values = [source.read(frame, lanes) for source in sources]
        done = frame.wave.meetings.meet(operation, frame, lanes, place, values, masks, slots, instruction.line)
        return pc + 1 if done else None

    return meet


def _require_whole_warps(frame: Frame, lanes: Lanes, instruction: ir.Instruction) -> None:
    _, warps = lanes.row_positions
    alive = frame.wave.alive_in_warp[warps]
    if (alive < WARP).any():
        position = int(np.argmax(frame.wave.alive_in_warp[frame.wave.warp_of_lane[lanes.index]] < WARP))
        raise frame.wave.fault(
            "barrier",
            f"{instruction.opcode} needs all 32 threads of a warp, this one has {int(alive.min())}",
            instruction.line,
            lanes,
            position,
        )


def _shape(instruction: ir.Instruction) -> tuple[str, tuple[int, int, int]]:
    """(`m16n8k16`, its numbers). Raises UnsupportedOpcode."""
    for modifier in instruction.modifiers:
        if match := re.fullmatch(r"m(\d+)n(\d+)k(\d+)", modifier):
            return modifier, tuple(map(int, match.groups()))
    raise UnsupportedOpcode(instruction)


def _types(instruction: ir.Instruction) -> list[str]:
    return [m for m in instruction.modifiers if m in BITS]


def _require_known(instruction: ir.Instruction, name: str) -> None:
    """No modifier beside types, the shape `name`, the address space and the usual ones."""
    rest = set(instruction.modifiers) - _FLAGS - set(BITS) - {name}
    if rest - {"shared", "shared::cta", "global"}:
        raise UnsupportedOpcode(instruction)


def _operand_fragments(instruction: ir.Instruction) -> tuple[Fragment, Fragment, Fragment, Fragment]:
    """How a, b, c and the result lie in registers. Raises UnsupportedOpcode."""
    name, (m, n, k) = _shape(instruction)
    types = _types(instruction)
    wmma = instruction.opcode == "wmma"
    if wmma and len(types) == 2:  # only the accumulators are named where a and b are f16
        types = [types[0], "f16", "f16", types[1]]
    if len(types) != 4:
        raise UnsupportedOpcode(instruction)
    to, left, right, add = types
    shapes = _WMMA_SHAPES if wmma else _MMA_SHAPES
    family = _FAMILIES.get(left, left)
    allowed = _RESULTS.get(family, ("f32",))
    if name not in shapes.get(left, ()) or family != _FAMILIES.get(right, right) or not {to, add} <= set(allowed):
        raise UnsupportedOpcode(instruction)
    _require_known(instruction, name)
    if not wmma:
        if "row" not in instruction.modifiers or "col" not in instruction.modifiers:
            raise UnsupportedOpcode(instruction)
        operands = mma_fragment("a", left, m, k), mma_fragment("b", right, k, n)
        return *operands, mma_fragment("c", add, m, n), mma_fragment("c", to, m, n)
    d, a, b, c = (len(flatten([o])) for o in instruction.operands)
    operands = wmma_fragment(left, m, k, a), wmma_fragment(right, k, n, b)
    return *operands, wmma_fragment(add, m, n, c), wmma_fragment(to, m, n, d)


# Matrices in memory


def matrix_step(instruction: ir.Instruction, layout: Layout, pc: int) -> Step:
    """The step of wmma.load or wmma.store. Raises UnsupportedOpcode."""
    modifiers = instruction.modifiers
    loads = "load" in modifiers
    name, (m, n, k) = _shape(instruction)
    (kind,) = types if len(types := _types(instruction)) == 1 else (None,)
    role = modifiers[1]
    shapes = {s for names in _WMMA_SHAPES.values() for s in names}
    if kind is None or name not in shapes or modifiers[0] not in ("load", "store"):
        raise UnsupportedOpcode(instruction)
    _require_known(instruction, name)
    rows, cols = {"a": (m, k), "b": (k, n), "c": (m, n), "d": (m, n)}[role]
    address, registers, *pitch = (
        instruction.operands if not loads else (*instruction.operands[1::-1], *instruction.operands[2:])
    )
    registers = flatten([registers])
    fragment = wmma_fragment(kind, rows, cols, len(registers))
    by_row = "row" in modifiers
    size = BITS[kind] // 8
    base, displacement = address_of(instruction, address, layout)
    operand = pitch[0] if pitch else ir.Immediate(cols if by_row else rows, "int")
    stride = layout.source(operand, "u32", instruction)
    access = access_of(instruction, "read" if loads else "write", size, pc)
    row, column = fragment.position // cols, fragment.position % cols
    outer, inner = (row, column) if by_row else (column, row)
    distinct = min(fragment.position.shape[1], rows * cols // WARP)
    if loads:
        targets = [layout.destination(o, fragment.code, instruction) for o in registers]
    else:
        sources = [layout.source(o, fragment.code, instruction) for o in registers]

    def addresses_of(frame: Frame, lanes: Lanes) -> list[np.ndarray]:
        """One (lanes,) array for each distinct element of a lane."""
        start = np.broadcast_to(base.read(frame, lanes), lanes.count)
        pitches = np.broadcast_to(stride.read(frame, lanes), lanes.count).astype(np.int64)
        unaligned = ((start.astype(np.int64) + displacement) % _MULTIPLE != 0) | (pitches * size % _MULTIPLE != 0)
        if unaligned.any():
            raise frame.wave.fault(
                "misaligned",
                f"wmma.{modifiers[0]} of a matrix whose address or whose rows are not multiples of {_MULTIPLE} bytes",
                instruction.line,
                lanes,
                int(np.argmax(unaligned)),
            )
        lane = frame.wave.lane_in_warp[lanes.index]
        offsets = ((outer[lane] * pitches[:, None] + inner[lane]) * size).astype(start.dtype)
        return [start + offsets[:, element] for element in range(distinct)]

    def load(frame: Frame, lanes: Lanes) -> None:
        found = [
            np.broadcast_to(read(frame.wave, access, 1, a, displacement, lanes), lanes.count)
            for a in addresses_of(frame, lanes)
        ]
        every = np.stack([found[e % distinct] for e in range(fragment.position.shape[1])], axis=1)
        words = every.view(np.uint64 if size == 8 else np.uint32)
        for register, target in enumerate(targets):
            if target is not None:
                frame.write(target.slot, np.ascontiguousarray(words[:, register]), lanes)

    def store(frame: Frame, lanes: Lanes) -> None:
        words = np.stack([np.broadcast_to(s.read(frame, lanes), lanes.count) for s in sources], axis=1)
        elements = words.view(f"u{size}")
        for element, a in enumerate(addresses_of(frame, lanes)):
            write(frame.wave, access, np.ascontiguousarray(elements[:, element : element + 1]), a, displacement, lanes)

    return load if loads else store


def _row_exchange(instruction: ir.Instruction, layout: Layout, pc: int) -> Control:
    """ldmatrix and stmatrix: lanes 0 to 7 give the addresses of the rows of the first matrix, and so on."""
    modifiers = instruction.modifiers
    count = next((int(m[1]) for m in modifiers if m in ("x1", "x2", "x4")), 0)
    rest = set(modifiers) - {"sync", "aligned", "m8n8", f"x{count}", "trans", "shared", "shared::cta", "b16"}
    loads = instruction.opcode == "ldmatrix"
    address, registers = instruction.operands[::-1] if loads else instruction.operands
    registers = flatten([registers])
    if rest or not {"m8n8", "b16"} <= set(modifiers) or len(registers) != count:
        raise UnsupportedOpcode(instruction)
    transpose = "trans" in modifiers
    base, displacement = address_of(instruction, address, layout)
    access = access_of(instruction, "read" if loads else "write", 16, pc)
    if loads:
        operation = WarpOperation(
            instruction.name, lambda values, *_: tuple(loaded_rows(values, count, transpose)), ("b32",) * 4
        )
        slots = [target and target.slot for target in (layout.destination(o, "b32", instruction) for o in registers)]
    else:
        operation = WarpOperation(
            instruction.name,
            lambda values, _, present: tuple(
                stored_rows([np.broadcast_to(v, present.shape) for v in values], transpose)
            ),
            ("b32",) * count,
        )
        sources = [layout.source(o, "b32", instruction) for o in registers]
    masks = np.array([ALL_LANES], np.uint32)

    def rows_of(frame: Frame, lanes: Lanes) -> tuple[np.ndarray, Lanes, np.ndarray]:
        """Which lanes give a row, those lanes, and their addresses."""
        _require_whole_warps(frame, lanes, instruction)
        chosen = frame.wave.lane_in_warp[lanes.index] < 8 * count
        part = lanes.subset(chosen)
        return chosen, part, base.read(frame, part)

    def load(frame: Frame, lanes: Lanes, place: int) -> int | None:
        words = np.zeros((lanes.count, 4), np.uint32)
        chosen, part, addresses = rows_of(frame, lanes)
        if part.count:
            words[chosen] = read(frame.wave, access, 4, addresses, displacement, part)
        values = list(np.ascontiguousarray(words.T))
        done = frame.wave.meetings.meet(operation, frame, lanes, place, values, masks, slots, instruction.line)
        return pc + 1 if done else None

    def store(frame: Frame, lanes: Lanes, place: int) -> int:
        chosen, part, addresses = rows_of(frame, lanes)
        if not lanes.closed:
            raise frame.wave.fault("barrier", "the threads of a warp do not meet at stmatrix", instruction.line, lanes)
        values = [source.read(frame, lanes) for source in sources]
        words = columns(frame.wave.meetings.run(operation, lanes, values, masks))
        write(frame.wave, access, words[chosen], addresses, displacement, part)
        return pc + 1

    return load if loads else store
