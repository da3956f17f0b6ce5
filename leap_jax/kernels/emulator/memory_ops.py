"""The steps of memory instructions: ld, st, atom, red, cvta, isspacep, and parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from leap_jax.kernels.emulator import ir, isa
from leap_jax.kernels.emulator.checks import Access, explain, locate, require_defined, track
from leap_jax.kernels.emulator.isa import DTYPES, UnsupportedOpcode
from leap_jax.kernels.emulator.memory import SPACE_TAGS, TAG_BITS, WINDOW_MASK, Allocation, all_defined
from leap_jax.kernels.emulator.operands import Destination, Layout, Source, flatten

if TYPE_CHECKING:
    from leap_jax.kernels.emulator.wave import Frame, Lanes, Step, Wave

_SPACES = {"global": "global", "const": "global", "shared": "shared", "local": "local", "param": "global"}
_STRONG = frozenset({"relaxed", "acquire", "release", "acq_rel", "mmio"})
_UFUNCS = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def memory_step(
    instruction: ir.Instruction, layout: Layout, pc: int, params: frozenset[str], result_used: bool
) -> Step:
    """The step of a ld, st, atom or red at instruction index `pc`; `params`: names in the frame's param space.

    Raises UnsupportedOpcode.
    """
    opcode = instruction.opcode
    if opcode in ("atom", "red"):
        return _atomic_step(instruction, layout, pc, opcode == "red" or not result_used)
    address = instruction.operands[1 if opcode in ("ld", "ldu") else 0]
    if not isinstance(address, ir.Address):
        raise UnsupportedOpcode(instruction)
    named = isinstance(address.base, ir.Symbol) and address.base.name in params
    if opcode == "st":
        return _store_param(instruction, layout) if named else _store(instruction, layout, pc)
    return _load_param(instruction, layout) if named else _load(instruction, layout, pc)


def _type(instruction: ir.Instruction) -> tuple[str, int]:
    """The type code of one element, and how many an access moves."""
    code = isa.carrier(instruction.modifiers[-1])
    count = next((int(m[1:]) for m in instruction.modifiers if m in ("v2", "v4", "v8")), 1)
    if code not in DTYPES or code == "pred" or DTYPES[code].itemsize * count > 16:
        raise UnsupportedOpcode(instruction)
    return code, count


def _space(instruction: ir.Instruction) -> str:
    """The address space an instruction names, else generic. `shared::cta` is shared."""
    for modifier in instruction.modifiers:
        if modifier.split("::")[0] in _SPACES:
            if modifier == "shared::cluster":
                raise UnsupportedOpcode(instruction)
            return _SPACES[modifier.split("::")[0]]
    return "generic"


def access_of(instruction: ir.Instruction, verb: str, width: int, pc: int) -> Access:
    """The access of `width` bytes that an instruction makes."""
    space = _space(instruction)
    strong = verb == "atomic" or bool(_STRONG & set(instruction.modifiers))
    strong = strong or ("volatile" in instruction.modifiers and space != "shared")
    return Access(verb, space, width, instruction.line, pc, strong)


def address_of(instruction: ir.Instruction, operand: ir.Operand | None, layout: Layout) -> tuple[Source, int]:
    """The base address to read, and the displacement from it."""
    if not isinstance(operand, ir.Address):
        raise UnsupportedOpcode(instruction)
    base: ir.Operand = operand.base if operand.base is not None else ir.Immediate(0, "int")
    code = layout.register_code(base) if isinstance(base, ir.Register) else "b64"
    return layout.source(base, code, instruction), operand.offset


def elements_of(allocation: Allocation, offsets: np.ndarray, width: int, lanes: Lanes) -> np.ndarray:
    """(count,) or (1,): the index of each lane's access in the allocation's view of that width."""
    elements = offsets if width == 1 else offsets >> offsets.dtype.type(width.bit_length() - 1)
    elements = elements.view(np.int64) if elements.itemsize == 8 else elements.astype(np.int64)
    rows = allocation.rows(width)
    return elements if rows is None else elements + lanes.pick(rows)


def read(wave: Wave, access: Access, count: int, addresses: np.ndarray, displacement: int, lanes: Lanes) -> np.ndarray:
    """What the lanes read at their addresses: (lanes,) or (1,), with a second axis of `count` for a vector.

    Raises Fault for an access that is not allowed.
    """
    located = locate(wave, access, addresses, displacement)
    if located is None:
        parts = explain(wave, access, addresses, displacement, lanes)
        values = [
            np.broadcast_to(
                read(wave, access, count, _of_part(addresses, lanes, part), displacement, part),
                (part.count,) if count == 1 else (part.count, count),
            )
            for part in parts
        ]
        order = np.argsort(np.concatenate([part.index for part in parts]), kind="stable")
        return np.concatenate(values)[order]
    allocation, offsets = located
    elements = elements_of(allocation, offsets, access.width, lanes)
    if allocation.flags is not None:
        require_defined(wave, access, allocation, elements, count, lanes)
    track(wave, access, allocation, elements, None, lanes)
    _count(wave, allocation, access, lanes)
    return allocation.view(access.width // count, count).take(elements, axis=0)


def write(
    wave: Wave, access: Access, values: np.ndarray, addresses: np.ndarray, displacement: int, lanes: Lanes
) -> None:
    """Stores `values`, (lanes or 1, elements of a vector), at the lanes' addresses. Raises Fault."""
    located = locate(wave, access, addresses, displacement)
    if located is None:
        for part in explain(wave, access, addresses, displacement, lanes):
            own = values if values.shape[0] == 1 else values[np.searchsorted(lanes.index, part.index)]
            write(wave, access, own, _of_part(addresses, lanes, part), displacement, part)
        return
    allocation, offsets = located
    elements = elements_of(allocation, offsets, access.width, lanes)
    track(wave, access, allocation, elements, values, lanes)
    _count(wave, allocation, access, lanes)
    if elements.size == 1:
        values = values[-1:]
    count = values.shape[1]
    if count == 1:
        values = values[:, 0]
    size = access.width // count
    allocation.view(size, count)[elements] = values
    _mark_written(allocation, size, count, elements)


def _of_part(addresses: np.ndarray, lanes: Lanes, part: Lanes) -> np.ndarray:
    """The addresses of some of the lanes."""
    return addresses if addresses.size == 1 else addresses[np.searchsorted(lanes.index, part.index)]


def _load(instruction: ir.Instruction, layout: Layout, pc: int) -> Step:
    code, count = _type(instruction)
    access = access_of(instruction, "read", DTYPES[code].itemsize * count, pc)
    base, displacement = address_of(instruction, instruction.operands[1], layout)
    destinations = [layout.destination(o, code, instruction) for o in flatten(instruction.operands[:1])]

    def step(frame: Frame, lanes: Lanes) -> None:
        values = read(frame.wave, access, count, base.read(frame, lanes), displacement, lanes)
        if count == 1:
            frame.write(destinations[0].slot, destinations[0].fit(values), lanes)
            return
        for destination, column in zip(destinations, np.ascontiguousarray(values.T), strict=True):
            if destination is not None:
                frame.write(destination.slot, destination.fit(column), lanes)

    return step


def _store(instruction: ir.Instruction, layout: Layout, pc: int) -> Step:
    code, count = _type(instruction)
    size = DTYPES[code].itemsize
    access = access_of(instruction, "write", size * count, pc)
    base, displacement = address_of(instruction, instruction.operands[0], layout)
    sources = [layout.source(o, f"b{size * 8}", instruction) for o in flatten(instruction.operands[1:])]
    if len(sources) != count:
        raise UnsupportedOpcode(instruction)

    def step(frame: Frame, lanes: Lanes) -> None:
        values = columns([source.read(frame, lanes) for source in sources])
        write(frame.wave, access, values, base.read(frame, lanes), displacement, lanes)

    return step


def columns(values: list[np.ndarray]) -> np.ndarray:
    """(count, elements) or (1, elements) from one array per element of a vector."""
    if len(values) == 1:
        return values[0].reshape(-1, 1)
    columns = np.empty((max(v.size for v in values), len(values)), values[0].dtype)
    for position, value in enumerate(values):
        columns[:, position] = value
    return columns


def _mark_written(allocation: Allocation, size: int, count: int, elements: np.ndarray) -> None:
    allocation.modified = True
    if allocation.flags is not None:
        allocation.flag_view(size, count)[elements] = all_defined(size)


def _count(wave: Wave, allocation: Allocation, access: Access, lanes: Lanes) -> None:
    counters = wave.counters
    if allocation.space == "shared":
        counters.shared_accesses += lanes.count
    elif allocation.space == "global":
        if access.verb != "write":
            counters.global_bytes_read += lanes.count * access.width
        if access.verb != "read":
            counters.global_bytes_written += lanes.count * access.width
    if access.verb == "atomic":
        counters.atomics += lanes.count


# Atomics


def _atomic_step(instruction: ir.Instruction, layout: Layout, pc: int, discard: bool) -> Step:
    code, count = _type(instruction)
    dtype = DTYPES[code]
    width = dtype.itemsize * count
    function = isa.atomic(instruction)
    name = next((m for m in instruction.modifiers if m in _UFUNCS or m in ("exch", "cas", "inc", "dec")), "")
    plain = not set(instruction.modifiers) & {"f16", "f16x2", "bf16", "bf16x2"}
    ufunc = _UFUNCS.get(name) if plain else None
    access = access_of(instruction, "atomic", width, pc)
    first = 0 if instruction.opcode == "red" else 1
    base, displacement = address_of(instruction, instruction.operands[first], layout)
    operands = instruction.operands[first + 1 :]
    if count > 1 and (len(operands) != 1 or len(flatten(operands)) != count):
        raise UnsupportedOpcode(instruction)
    sources = [layout.source(o, code, instruction) for o in flatten(operands)]
    results = flatten(instruction.operands[:first]) or [None] * count
    destinations = [layout.destination(o, code, instruction) for o in results]

    def step(frame: Frame, lanes: Lanes) -> None:
        wave = frame.wave
        addresses = base.read(frame, lanes)
        located = locate(wave, access, addresses, displacement)
        if located is None:
            for part in explain(wave, access, addresses, displacement, lanes):
                step(frame, part)
            return
        allocation, offsets = located
        elements = np.broadcast_to(elements_of(allocation, offsets, width, lanes), lanes.count)
        if allocation.flags is not None and name != "exch":
            require_defined(wave, access, allocation, elements, count, lanes)
        track(wave, access, allocation, elements, None, lanes)
        _count(wave, allocation, access, lanes)
        values = [np.broadcast_to(source.read(frame, lanes), lanes.count) for source in sources]
        cells = allocation.view(dtype.itemsize).view(dtype)
        for position, destination in enumerate(destinations):  # a vector is one atomic for each element
            own = elements * count + position if count > 1 else elements
            given = values[position : position + 1] if count > 1 else values
            if discard and ufunc is not None:
                ufunc.at(cells, own, given[0])
                continue
            old = _in_order(cells, own, given, function, name, ufunc)
            if destination is not None:
                frame.write(destination.slot, destination.fit(old), lanes)
        _mark_written(allocation, dtype.itemsize, count, elements)

    return step


def _in_order(
    cells: np.ndarray,
    elements: np.ndarray,
    values: list[np.ndarray],
    function: Callable[..., np.ndarray],
    name: str,
    ufunc: np.ufunc | None,
) -> np.ndarray:
    """Applies one atomic per lane, in lane order at each address; the old value each lane saw."""
    order = np.argsort(elements, kind="stable")
    ordered = elements[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    lengths = np.diff(starts, append=ordered.size)
    depth = int(lengths.max())
    old = np.empty(elements.size, cells.dtype)
    if depth > 1 and name == "cas":
        return _compare_and_swap(cells, elements, *values, old)
    if depth > 1 and ufunc is np.add and cells.dtype.kind in "iu":
        added = values[0][order]
        before = np.cumsum(added, dtype=cells.dtype) - added
        old[order] = cells[ordered] + before - np.repeat(before[starts], lengths)
        ufunc.at(cells, elements, values[0])
        return old
    rank = np.arange(ordered.size) - np.repeat(starts, lengths)
    by_rank = order[np.argsort(rank, kind="stable")]
    ends = np.cumsum(np.bincount(rank))
    for begin, end in zip(np.concatenate([[0], ends[:-1]]), ends, strict=True):
        turn = by_rank[begin:end]
        cell = elements[turn]
        old[turn] = current = cells[cell]
        cells[cell] = function(current, *(value[turn] for value in values))
    return old


def _compare_and_swap(
    cells: np.ndarray, elements: np.ndarray, expected: np.ndarray, new: np.ndarray, old: np.ndarray
) -> np.ndarray:
    """Lane by lane in plain integers: many lanes on one address, most of which fail."""
    current: dict[int, int] = {}
    seen = []
    for cell, want, value in zip(elements.tolist(), expected.tolist(), new.tolist(), strict=True):
        if cell not in current:
            current[cell] = int(cells[cell])
        seen.append(current[cell])
        if current[cell] == want:
            current[cell] = value
    for cell, value in current.items():
        cells[cell] = value
    old[:] = np.array(seen, cells.dtype)
    return old


# Parameters: bytes in the frame, (1, size) for a kernel's and (lanes, size) for a function's


def _load_param(instruction: ir.Instruction, layout: Layout) -> Step:
    code, _ = _type(instruction)
    name, start, size, dtype = *_param_place(instruction.operands[1]), DTYPES[code].itemsize, DTYPES[code]
    unsigned = np.dtype(f"u{size}")
    destinations: list[Destination | None] = [
        layout.destination(o, code, instruction) for o in flatten(instruction.operands[:1])
    ]

    def step(frame: Frame, lanes: Lanes) -> None:
        raw = frame.params[name]
        for position, destination in enumerate(destinations):
            begin = start + position * size
            columns = raw[:, begin : begin + size]
            if raw.shape[0] > 1 and not lanes.all:
                columns = columns[lanes.index]
            value = np.array(columns, order="C").view(unsigned).reshape(-1).view(dtype)
            if destination is not None:
                frame.write(destination.slot, destination.fit(value), lanes)

    return step


def _store_param(instruction: ir.Instruction, layout: Layout) -> Step:
    code, _ = _type(instruction)
    name, start, size = *_param_place(instruction.operands[0]), DTYPES[code].itemsize
    sources = [layout.source(o, f"b{size * 8}", instruction) for o in flatten(instruction.operands[1:])]

    def step(frame: Frame, lanes: Lanes) -> None:
        raw = frame.params[name]
        for position, source in enumerate(sources):
            begin = start + position * size
            value = np.ascontiguousarray(source.read(frame, lanes)).view(np.uint8).reshape(-1, size)
            raw[lanes.index, begin : begin + size] = value

    return step


def _param_place(address: ir.Operand | None) -> tuple[str, int]:
    return address.base.name, address.base.offset + address.offset


# Conversions between spaces


def conversion_step(instruction: ir.Instruction, layout: Layout) -> Step:
    """cvta, cvta.to and isspacep. Raises UnsupportedOpcode."""
    space = _space(instruction)
    if space == "generic":
        raise UnsupportedOpcode(instruction)
    tag = np.uint64(SPACE_TAGS[space] << TAG_BITS)
    is_test = instruction.opcode == "isspacep"
    source = layout.source(instruction.operands[1], "u64", instruction)
    destination = layout.destination(instruction.operands[0], "pred" if is_test else "u64", instruction)
    to_window, window = "to" in instruction.modifiers, np.uint64(WINDOW_MASK)

    def step(frame: Frame, lanes: Lanes) -> None:
        address = source.read(frame, lanes)
        if is_test:
            value = address >> np.uint64(TAG_BITS) == tag >> np.uint64(TAG_BITS)
        elif tag == 0:
            value = address.copy()
        else:
            value = address & window if to_window else address | tag
        frame.write(destination.slot, value, lanes)

    return step
