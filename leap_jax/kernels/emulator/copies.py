"""cp.async: copies from global to shared memory that a thread starts, groups and later waits for.

The bytes move when the copy starts. Until the thread that started it has waited for its group, they are in flight:
nobody may read or write the destination.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from leap_jax.kernels.emulator import ir
from leap_jax.kernels.emulator.checks import Access, locate
from leap_jax.kernels.emulator.isa import UnsupportedOpcode
from leap_jax.kernels.emulator.mbarriers import arrive
from leap_jax.kernels.emulator.memory import Allocation
from leap_jax.kernels.emulator.memory_ops import address_of, elements_of, read, write
from leap_jax.kernels.emulator.operands import Layout, Source

if TYPE_CHECKING:
    from leap_jax.kernels.emulator.wave import Frame, Lanes, Step, Wave

_WORD = 4
_HINTS = frozenset({"ca", "cg", "L2::64B", "L2::128B", "L2::256B", "L2::cache_hint"})
_WHERE = frozenset({"async", "shared", "shared::cta", "global"})


class Copies:
    """Which copies of a wave are in flight. Groups of a lane are numbered from 1; `done` are over."""

    def __init__(self, wave: Wave):
        self._lanes = wave.lanes
        self._open = self._done = self._last = None  # (lanes,) the group being filled, the last done, the last used
        self._arrays: list[Allocation] = []

    def start(self, allocation: Allocation, words: np.ndarray, lanes: Lanes, line: int) -> None:
        """`words`: (lanes, words of a copy), which they are to fill."""
        if self._open is None:
            self._open = np.ones(self._lanes, np.int64)
            self._done, self._last = np.zeros(self._lanes, np.int64), np.zeros(self._lanes, np.int64)
        if allocation.in_flight is None:
            allocation.in_flight = InFlight(self, allocation.data.size // _WORD)
            self._arrays.append(allocation)
        groups = self._open[lanes.index]
        self._last[lanes.index] = groups
        allocation.in_flight.mark(words, lanes.index, groups, line)

    def commit(self, lanes: Lanes) -> None:
        """What the lanes started belongs to a group of its own from now on."""
        if self._open is not None:
            self._open[lanes.index] += 1

    def wait(self, lanes: Lanes, pending: int) -> None:
        """All groups of the lanes but the `pending` latest are done."""
        if self._open is None:
            return
        index = lanes.index
        self._done[index] = np.maximum(self._done[index], self._open[index] - 1 - pending)
        if (self._last <= self._done).all():
            for allocation in self._arrays:
                allocation.in_flight = None
            self._arrays.clear()

    def undone(self, lanes: np.ndarray, groups: np.ndarray) -> np.ndarray:
        """Whether the lanes have not waited for those groups."""
        return groups > self._done[lanes]


class InFlight:
    """The words of one allocation that a copy may not have reached yet."""

    def __init__(self, copies: Copies, words: int):
        self._copies = copies
        self._lane, self._line = np.zeros(words, np.int32), np.zeros(words, np.int32)
        self._group = np.zeros(words, np.int64)  # 0: none

    def mark(self, words: np.ndarray, lanes: np.ndarray, groups: np.ndarray, line: int) -> None:
        self._lane[words], self._group[words], self._line[words] = lanes[:, None], groups[:, None], line

    def check(self, wave: Wave, access: Access, allocation: Allocation, elements: np.ndarray, lanes: Lanes) -> None:
        """Raises Fault for a lane that touches a word in flight."""
        first = elements * access.width // _WORD
        words = first[:, None] + np.arange(max(access.width // _WORD, 1))
        groups = self._group.take(words)
        if not groups.any():
            return
        early = ((groups > 0) & self._copies.undone(self._lane.take(words), groups)).any(axis=1)
        if not early.any():
            return
        position = int(np.argmax(np.broadcast_to(early, lanes.count)))
        row = int(np.argmax(early))
        word = int(words[row, int(np.argmax(groups[row] > 0))])
        raise wave.fault(
            "race",
            f"{allocation.space} {access.verb} of {allocation.describe(word * _WORD % allocation.stride)}, which "
            f"cp.async in line {int(self._line[word])} is still filling: its thread has not waited for it",
            access.line,
            lanes,
            position,
        )


def copy_step(instruction: ir.Instruction, layout: Layout, pc: int) -> Step:
    """The step of a cp.async instruction. Raises UnsupportedOpcode, also for the bulk forms."""
    modifiers = set(instruction.modifiers)
    if instruction.modifiers[:2] == ("async", "commit_group"):
        return lambda frame, lanes: frame.wave.copies.commit(lanes)
    if instruction.modifiers[:2] == ("async", "wait_all"):
        return _wait_all
    if instruction.modifiers[:2] == ("async", "wait_group"):
        pending = instruction.operands[0].bits
        return lambda frame, lanes: frame.wave.copies.wait(lanes, pending)
    if instruction.modifiers[:3] == ("async", "mbarrier", "arrive"):
        return _arrive_step(instruction, layout, pc)
    if modifiers - _HINTS - _WHERE or len(instruction.operands) < 3:
        raise UnsupportedOpcode(instruction)
    return _copy(instruction, layout, pc)


def _wait_all(frame: Frame, lanes: Lanes) -> None:
    frame.wave.copies.commit(lanes)
    frame.wave.copies.wait(lanes, 0)


def _arrive_step(instruction: ir.Instruction, layout: Layout, pc: int) -> Step:
    """The lanes arrive once their copies have: here, at once."""
    access = Access("atomic", "shared", 8, instruction.line, pc, strong=True)
    base, displacement = address_of(instruction, instruction.operands[0], layout)
    counted = "noinc" in instruction.modifiers  # otherwise the arrival is added to what is expected

    def step(frame: Frame, lanes: Lanes) -> None:
        _wait_all(frame, lanes)
        if counted:
            arrive(frame.wave, access, base.read(frame, lanes), displacement, lanes, np.ones(1, np.int64))

    return step


def _copy(instruction: ir.Instruction, layout: Layout, pc: int) -> Step:
    destination, source, size, *rest = instruction.operands
    hinted = "L2::cache_hint" in instruction.modifiers
    limit = rest[0] if len(rest) > hinted else None  # bytes to read, or a predicate that says to read none
    width = size.bits if isinstance(size, ir.Immediate) else 0
    if width not in (4, 8, 16):
        raise UnsupportedOpcode(instruction)
    to, to_offset = address_of(instruction, destination, layout)
    of, of_offset = address_of(instruction, source, layout)
    line = instruction.line
    store = Access("write", "shared", width, line, pc)
    load = Access("read", "global", width, line, pc)
    one_byte = Access("read", "global", 1, line, pc)
    words = width // _WORD
    bytes_read = _limit(limit, layout, instruction)

    def step(frame: Frame, lanes: Lanes) -> None:
        wave = frame.wave
        addresses = of.read(frame, lanes)
        wanted = np.full(1, width) if bytes_read is None else bytes_read(frame, lanes)
        if (wanted > width).any():
            text = f"cp.async reads {int(wanted.max())} bytes of a copy of {width}"
            raise wave.fault("memory_fault", text, line, lanes, int(np.argmax(wanted)))
        if (wanted == width).all():
            values = read(wave, load, words, addresses, of_offset, lanes).reshape(-1, words)
        else:
            wanted, addresses = np.broadcast_to(wanted, lanes.count), np.broadcast_to(addresses, lanes.count)
            values = np.zeros((lanes.count, words), np.uint32)
            whole = wanted == width
            if whole.any():
                found = read(wave, load, words, addresses[whole], of_offset, lanes.subset(whole))
                values[whole] = found.reshape(-1, words)
            for position in range(int(wanted[~whole].max())):
                some = ~whole & (wanted > position)
                found = read(wave, one_byte, 1, addresses[some], of_offset + position, lanes.subset(some))
                values.view(np.uint8)[some, position] = found
        target = to.read(frame, lanes)
        write(wave, store, values, target, to_offset, lanes)
        allocation, offsets = locate(wave, store, target, to_offset) or (None, None)
        if allocation is not None:
            first = np.broadcast_to(elements_of(allocation, offsets, width, lanes), lanes.count) * words
            wave.copies.start(allocation, first[:, None] + np.arange(words), lanes, line)

    return step


def _limit(operand: ir.Operand | None, layout: Layout, instruction: ir.Instruction):
    """Reads how many bytes of the source are wanted; None: all."""
    if operand is None:
        return None
    if isinstance(operand, ir.Register) and layout.register_code(operand) == "pred":
        ignore = layout.source(operand, "pred", instruction)
        width = instruction.operands[2].bits
        return lambda frame, lanes: np.where(ignore.read(frame, lanes), 0, width)
    count: Source = layout.source(operand, "u32", instruction)
    return lambda frame, lanes: count.read(frame, lanes).astype(np.int64)
