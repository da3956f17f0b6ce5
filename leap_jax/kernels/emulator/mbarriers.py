"""mbarrier objects: barriers in shared memory that count arrivals by phases; what cuda::barrier is made of.

The 64 bits of an object: phase, expected arrivals of a phase, arrivals still missing, and bytes of transactions still
missing. Their layout is this emulator's own: kernels must not look inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from leap_jax.kernels.emulator import ir
from leap_jax.kernels.emulator.checks import Access, explain, locate, require_defined, track
from leap_jax.kernels.emulator.isa import UnsupportedOpcode
from leap_jax.kernels.emulator.memory import Allocation
from leap_jax.kernels.emulator.memory_ops import address_of, elements_of, write
from leap_jax.kernels.emulator.operands import Layout

if TYPE_CHECKING:
    from leap_jax.kernels.emulator.wave import Frame, Lanes, Step, Wave

_COUNT_BITS = 20
_LARGEST = (1 << _COUNT_BITS) - 1
_MISSING, _EXPECTED, _PHASE = 22, 42, 62  # shifts; below them the bytes
_BYTES = (1 << _MISSING) - 1
_PHASES = 4  # counted modulo this: a wait names the phase it waits for by parity or by a token


def _packed(phase: int, expected: int, missing: int, transactions: int) -> int:
    return phase << _PHASE | expected << _EXPECTED | missing << _MISSING | transactions


def _unpacked(word: int) -> tuple[int, int, int, int]:
    return word >> _PHASE, word >> _EXPECTED & _LARGEST, word >> _MISSING & _LARGEST, word & _BYTES


def barrier_object_step(instruction: ir.Instruction, layout: Layout, pc: int) -> Step:
    """The step of an mbarrier instruction. Raises UnsupportedOpcode."""
    kind, *rest = instruction.modifiers
    known = {
        "shared",
        "shared::cta",
        "b64",
        "release",
        "acquire",
        "relaxed",
        "cta",
        "parity",
        "noComplete",
        "expect_tx",
    }
    make = _KINDS.get(kind)
    if make is None or set(rest) - known:
        raise UnsupportedOpcode(instruction)
    return make(instruction, layout, pc)


def _access(instruction: ir.Instruction, pc: int, verb: str = "atomic") -> Access:
    space = "shared" if {"shared", "shared::cta"} & set(instruction.modifiers) else "generic"
    return Access(verb, space, 8, instruction.line, pc, strong=True)


def _init(instruction: ir.Instruction, layout: Layout, pc: int) -> Step:
    access = Access("write", _access(instruction, pc).space, 8, instruction.line, pc)
    base, displacement = address_of(instruction, instruction.operands[0], layout)
    count = layout.source(instruction.operands[1], "u32", instruction)

    def step(frame: Frame, lanes: Lanes) -> None:
        counts = count.read(frame, lanes).astype(np.uint64)
        if (counts == 0).any() or (counts > _LARGEST).any():
            text = f"mbarrier.init with a count of {int(counts[np.argmax((counts == 0) | (counts > _LARGEST))])}"
            raise frame.wave.fault("barrier", text, instruction.line, lanes)
        words = counts << np.uint64(_EXPECTED) | counts << np.uint64(_MISSING)
        write(frame.wave, access, words.reshape(-1, 1), base.read(frame, lanes), displacement, lanes)

    return step


def _inval(instruction: ir.Instruction, layout: Layout, pc: int) -> Step:
    return lambda frame, lanes: None


def _arrive(instruction: ir.Instruction, layout: Layout, pc: int) -> Step:
    """arrive, arrive_drop, expect_tx and complete_tx."""
    kind, *flags = instruction.modifiers
    arrives = kind in ("arrive", "arrive_drop")
    operands = list(instruction.operands)
    target = operands.pop(0) if not isinstance(operands[0], ir.Address) else None
    destination = layout.destination(target, "b64", instruction) if arrives else None
    base, displacement = address_of(instruction, operands[0], layout)
    amount = layout.source(operands[1] if len(operands) > 1 else ir.Immediate(1, "int"), "u32", instruction)
    access = _access(instruction, pc)

    def step(frame: Frame, lanes: Lanes) -> None:
        amounts = amount.read(frame, lanes).astype(np.int64)
        counts, transactions = (amounts, np.zeros(1, np.int64)) if arrives else (np.zeros(1, np.int64), amounts)
        if arrives and "expect_tx" in flags:
            counts, transactions = np.ones(1, np.int64), amounts
        if kind == "complete_tx":
            transactions = -transactions
        tokens = arrive(
            frame.wave,
            access,
            base.read(frame, lanes),
            displacement,
            lanes,
            counts,
            transactions,
            drop=kind == "arrive_drop",
        )
        if destination is not None:
            frame.write(destination.slot, tokens, lanes)

    return step


def arrive(
    wave: Wave,
    access: Access,
    addresses: np.ndarray,
    displacement: int,
    lanes: Lanes,
    counts: np.ndarray,
    transactions: np.ndarray | None = None,
    drop: bool = False,
) -> np.ndarray:
    """Each lane, in order, brings arrivals and expects bytes; (lanes,) u64: the object before it. Raises Fault."""
    tokens = np.zeros(lanes.count, np.uint64)
    counts = np.broadcast_to(counts, lanes.count)
    transactions = np.broadcast_to(0 if transactions is None else transactions, lanes.count)
    for allocation, elements, positions in _objects(wave, access, addresses, displacement, lanes):
        cells = allocation.view(8)
        for position, element in zip(positions.tolist(), elements.tolist(), strict=True):
            word = int(cells[element])
            tokens[position] = word
            phase, expected, missing, pending = _unpacked(word)
            brought = int(counts[position])
            if brought > missing:
                text = f"more arrivals at an mbarrier than the {expected} it was made for"
                raise wave.fault("barrier", text, access.line, lanes, position)
            missing -= brought
            expected -= brought if drop else 0
            pending = pending + int(transactions[position]) & _BYTES
            if missing == 0 and pending == 0:
                wave.epoch += 1
                wave.barrier_phases[allocation.base + element * 8, phase] = wave.epoch
                wave.counters.barriers += 1
                phase, missing = (phase + 1) % _PHASES, expected
            cells[element] = _packed(phase, expected, missing, pending)
    return tokens


def _wait(instruction: ir.Instruction, layout: Layout, pc: int) -> Step:
    """test_wait and try_wait, which never sleeps here: whether the phase of a token, or of a parity, is over."""
    target, address, phase = instruction.operands[:3]
    destination = layout.destination(target, "pred", instruction)
    base, displacement = address_of(instruction, address, layout)
    by_parity = "parity" in instruction.modifiers
    wanted = layout.source(phase, "u32" if by_parity else "u64", instruction)
    access = _access(instruction, pc, "read")

    def step(frame: Frame, lanes: Lanes) -> None:
        wave = frame.wave
        over = np.zeros(lanes.count, bool)
        epochs = np.zeros(lanes.count, np.int64)
        phases = np.broadcast_to(wanted.read(frame, lanes).astype(np.uint64), lanes.count)
        phases = phases & np.uint64(1) if by_parity else phases >> np.uint64(_PHASE)
        for allocation, elements, positions in _objects(wave, access, base.read(frame, lanes), displacement, lanes):
            now = allocation.view(8)[elements] >> np.uint64(_PHASE)
            own = phases[positions]
            over[positions] = (now & np.uint64(1)) != own if by_parity else now != own
            for position, element, last in zip(positions, elements.tolist(), now.tolist(), strict=True):
                key = allocation.base + element * 8, (last - 1) % _PHASES
                epochs[position] = wave.barrier_phases.get(key, 0)
        if destination is not None:
            frame.write(destination.slot, over, lanes)
        if over.any():
            wave.join_epoch(lanes.index[over], epochs[over])

    return step


def _pending_count(instruction: ir.Instruction, layout: Layout, pc: int) -> Step:
    target, token = instruction.operands
    destination, source = layout.destination(target, "b32", instruction), layout.source(token, "u64", instruction)

    def step(frame: Frame, lanes: Lanes) -> None:
        count = source.read(frame, lanes) >> np.uint64(_MISSING) & np.uint64(_LARGEST)
        frame.write(destination.slot, count.astype(np.uint32), lanes)

    return step


def _objects(
    wave: Wave, access: Access, addresses: np.ndarray, displacement: int, lanes: Lanes
) -> list[tuple[Allocation, np.ndarray, np.ndarray]]:
    """(allocation, the lanes' elements of 8 bytes, their positions) for each allocation. Raises Fault."""
    located = locate(wave, access, addresses, displacement)
    if located is None:
        found = []
        for part in explain(wave, access, addresses, displacement, lanes):
            positions = np.searchsorted(lanes.index, part.index)
            own = addresses if addresses.size == 1 else addresses[positions]
            found += [(a, e, positions[p]) for a, e, p in _objects(wave, access, own, displacement, part)]
        return found
    allocation, offsets = located
    elements = np.broadcast_to(elements_of(allocation, offsets, 8, lanes), lanes.count)
    if allocation.flags is not None:
        require_defined(wave, access, allocation, elements, 1, lanes)
    track(wave, access, allocation, elements, None, lanes)
    return [(allocation, elements, np.arange(lanes.count))]


_KINDS = {
    "init": _init,
    "inval": _inval,
    "arrive": _arrive,
    "arrive_drop": _arrive,
    "expect_tx": _arrive,
    "complete_tx": _arrive,
    "test_wait": _wait,
    "try_wait": _wait,
    "pending_count": _pending_count,
}
