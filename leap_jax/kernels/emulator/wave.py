"""The blocks in flight: their lanes, registers and windows of memory, and which lanes run next.

Lanes that stand at one place run together, the lowest place first: callees before callers, then earlier instructions
before later ones, which is where diverged lanes meet again. A place is one integer: (MAX_DEPTH - depth) * program
size + instruction index.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from leap_jax.kernels.emulator import checks
from leap_jax.kernels.emulator.barriers import Barriers
from leap_jax.kernels.emulator.checks import Fault
from leap_jax.kernels.emulator.copies import Copies
from leap_jax.kernels.emulator.counters import LaunchCounters
from leap_jax.kernels.emulator.memory import (
    SPACE_TAGS,
    TAG_BITS,
    WINDOW_MASK,
    Allocation,
    GlobalMemory,
    Space,
    source_name,
)
from leap_jax.kernels.emulator.special import SPECIALS
from leap_jax.kernels.emulator.warp import Meetings
from leap_jax.kernels.verdict import FaultReport

if TYPE_CHECKING:
    from leap_jax.kernels.emulator.machine import Code, LaunchPlan, Program

WARP = 32
MAX_DEPTH = 256  # calls
_SPARSE = 8  # a group below 1 / 8 of all lanes never works on whole arrays
_CLOCK_CHECK = 64  # instructions between two looks at the clock
_NO_LIMIT = 1 << 62
_LOOP_PATIENCE = 1 << 14  # backward branches of one group before the others get a turn
_SPIN_PATIENCE = 1 << 4  # the same for loops that look at memory which others may write
IMPATIENCE = _LOOP_PATIENCE // _SPIN_PATIENCE


class Lanes:
    """A set of lanes that run together.

    index: (count,) sorted. all: it is every lane of the wave. every: no other lane is alive, so that whole arrays may
    be written. dense: masked whole-array work beats gathering.
    """

    __slots__ = ("_closed", "_mask", "_row_positions", "_warps", "all", "count", "dense", "every", "index", "wave")

    def __init__(self, wave: Wave, index: np.ndarray):
        self.wave, self.index, self.count = wave, index, index.size
        self.all = self.count == wave.lanes
        self.dense = self.count * 2 > wave.lanes
        self.every = self.count == wave.alive_count and self.count * _SPARSE >= wave.lanes
        self._mask = self._warps = self._row_positions = self._closed = None

    def pick(self, array: np.ndarray) -> np.ndarray:
        """The lanes' own part of a per-lane array; uniform (1,) arrays stay as they are."""
        return array if self.all or array.size == 1 else array.take(self.index)

    def subset(self, chosen: np.ndarray) -> Lanes:
        """`chosen`: (count,) bool."""
        return Lanes(self.wave, self.index[chosen])

    def split(self, predicate: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
        """(indices where true, indices where false); an empty side is None."""
        chosen = self.pick(predicate)
        hits = np.count_nonzero(chosen) * (self.count if chosen.size == 1 else 1)
        if hits == self.count:
            return self.index, None
        if hits == 0:
            return None, self.index
        return self.index[chosen], self.index[~chosen]

    @property
    def mask(self) -> np.ndarray:
        """(lanes of the wave,) bool."""
        if self._mask is None:
            self._mask = np.zeros(self.wave.lanes, bool)
            self._mask[self.index] = True
        return self._mask

    @property
    def row_positions(self) -> tuple[np.ndarray, np.ndarray]:
        """(count,) the position of each lane in a (warps touched, 32) array, and (warps touched,) those warps."""
        if self._row_positions is None:
            warps = self.wave.warp_of_lane[self.index]
            first = np.empty(self.count, bool)
            first[0] = True
            np.not_equal(warps[1:], warps[:-1], out=first[1:])
            rows = np.cumsum(first) - 1
            self._row_positions = rows * WARP + self.wave.lane_in_warp[self.index], warps[first]
        return self._row_positions

    @property
    def closed(self) -> bool:
        """Whether no living lane of their warps is missing."""
        if self._closed is None:
            _, warps = self.row_positions
            self._closed = int(self.wave.alive_in_warp[warps].sum()) == self.count
        return self._closed

    @property
    def warps(self) -> int:
        """How many warps the lanes belong to."""
        if self._warps is None:
            if self.all:
                self._warps = self.wave.warps
            else:
                warps = self.wave.warp_of_lane[self.index]
                self._warps = 1 + int(np.count_nonzero(warps[1:] != warps[:-1]))
        return self._warps


class Frame:
    """The registers of one function at one call depth, for all lanes.

    A register is (lanes,), or (1,) if all lanes agree; its dtype is any of the register's width. Whole-array writes
    replace it; lane-wise writes go to an array that no other register shares.
    """

    __slots__ = ("_owned", "code", "depth", "params", "registers", "return_place", "wave")

    def __init__(self, wave: Wave, code: Code, depth: int):
        self.wave, self.code, self.depth = wave, code, depth
        self.registers = code.initial_registers(wave, depth)
        self.params = code.initial_params(wave, depth)
        self.return_place = np.zeros(wave.lanes if depth else 1, np.int64)
        self._owned: dict[int, np.ndarray] = {}

    def write(self, slot: int, value: np.ndarray, lanes: Lanes) -> None:
        """Sets a register for the lanes; `value` is theirs, (count,) or (1,)."""
        if lanes.every and (lanes.all or value.size == 1):
            self.registers[slot] = value
        else:
            self.own(slot, value.dtype)[lanes.index] = value

    def own(self, slot: int, dtype: np.dtype) -> np.ndarray:
        """The register as a full array of the dtype that may be written in place."""
        register = self.registers[slot]
        if self._owned.get(slot) is not register:
            uniform = register.size != self.wave.lanes
            register = np.full(self.wave.lanes, register[0]) if uniform else register.copy()
        if register.dtype is not dtype:
            register = register.view(dtype)
        self.registers[slot] = self._owned[slot] = register
        return register


class Wave:
    """Some consecutive blocks of a launch, run to their end."""

    def __init__(self, plan: LaunchPlan, first_block: int, blocks: int):
        self.plan = plan
        self.program: Program = plan.program
        self.counters: LaunchCounters = plan.counters
        self.memory: GlobalMemory = plan.memory
        threads = plan.threads
        self.blocks, self.first_block, self.blocks_of_launch = blocks, first_block, plan.blocks
        self.threads_per_block = threads
        self.warps_per_block = -(-threads // WARP)
        self.lanes, self.warps = blocks * threads, blocks * self.warps_per_block
        thread = np.arange(threads, dtype=np.int64)
        self.thread_of_lane = np.tile(thread, blocks)
        self.block_of_lane = np.repeat(np.arange(blocks, dtype=np.int64), threads)
        self.lane_in_warp = self.thread_of_lane % WARP
        self.warp_of_lane = self.block_of_lane * self.warps_per_block + self.thread_of_lane // WARP
        self.whole_warps = threads % WARP == 0

        self.alive = np.ones(self.lanes, bool)
        self.alive_count = self.lanes
        self.alive_in_warp = np.bincount(self.warp_of_lane)
        self.ready: dict[int, list[np.ndarray]] = {}
        self.barriers = Barriers(self)
        self.meetings = Meetings(self)
        self.frames: dict[tuple[int, str], Frame] = {}

        self.copies = Copies(self)
        self.barrier_phases: dict[tuple[int, int], int] = {}  # (mbarrier, its phase) -> the race epoch it ended in
        self.fences = plan.fences
        self.launch_shadows = plan.launch_shadows
        self.epoch = 0
        self._block_tags = (
            ((np.uint64(first_block) + self.block_of_lane.astype(np.uint64)) & np.uint64(checks.BLOCK_MASK))
            << np.uint64(checks.BLOCK_SHIFT)
        ) | ((self.thread_of_lane // WARP).astype(np.uint64) << np.uint64(checks.WARP_SHIFT))
        self._lane_tags = np.int64(1 << checks.SYNC_SHIFT) | (self.warp_of_lane << checks.LANE_BITS) | self.lane_in_warp
        self._warp_syncs = 0  # of all lanes together, on top of those in _lane_tags
        self.tags = self._block_tags  # (lanes,) who each lane is, for race checks
        self.next_epoch(None)

        self._make_windows()
        self.issued = 0  # warp-level steps so far: the clock
        self._next_clock_check = 0
        self._steps_all = 0
        self._steps = np.zeros(self.lanes, np.int64)  # on top of _steps_all
        self._budget = plan.limits.instructions_per_thread
        self._heat = [0] * (len(self.program.steps) + 1)

    # Memory

    def _make_windows(self) -> None:
        self.spaces = {"global": self.memory.space, "shared": Space("shared"), "local": Space("local")}
        self.shared_symbols: dict[str, int] = {}
        for variable in self.plan.shared_variables:
            allocation = self.spaces["shared"].allocate(
                source_name(variable.symbols[0]),
                variable.size_bytes,
                rows=self.blocks,
                row_of_lane=self.block_of_lane,
            )
            self.shared_symbols |= dict.fromkeys(variable.symbols, allocation.base)

    def find(self, space: str, address: int) -> Allocation | None:
        """The allocation whose slot holds the address, in its own space or the generic one."""
        if space != "generic":
            return self.spaces[space].find(address)
        tag = address >> TAG_BITS
        if tag == SPACE_TAGS["global"]:
            return self.memory.space.find(address)
        space = "shared" if tag == SPACE_TAGS["shared"] else "local"
        offset = address & ((1 << TAG_BITS) - 1)
        return self.spaces[space].find(offset) if tag <= 2 and offset <= WINDOW_MASK else None

    def local_variable(self, name: str, size: int) -> int:
        """A new local array for every lane; its address in the local window."""
        rows = np.arange(self.lanes, dtype=np.int64)
        return self.spaces["local"].allocate(name, size, rows=self.lanes, row_of_lane=rows).base

    def address_of(self, name: str) -> int:
        """The address of a shared variable, function, module variable or kernel parameter. Raises KeyError."""
        if name in self.shared_symbols:
            return self.shared_symbols[name]
        if name in self.program.functions:
            return self.program.functions[name]
        module = self.memory.modules[self.program]
        return module[name] if name in module else self.plan.param_address(name)

    def special(self, name: str) -> np.ndarray:
        """The value of a special register, (lanes,) or (1,)."""
        return SPECIALS[name](self)

    # Race epochs

    def next_epoch(self, lanes: np.ndarray | None) -> None:
        """Lanes (None: all) have met at a barrier: what they did before is ordered before what follows."""
        self.epoch += 1
        tag = np.uint64((self.epoch & checks.EPOCH_MASK) << checks.EPOCH_SHIFT)
        if lanes is not None:
            self.tags = self.tags.copy()
            self.tags[lanes] = self._block_tags[lanes] | tag
            return
        self.tags = self._block_tags | tag
        if self.epoch > 1:
            for allocation in (*self.spaces["shared"].slots.values(), *self.launch_shadows):
                allocation.settle()
                if allocation.shadow is not None:
                    allocation.shadow.barrier()

    def synchronise_warps(self, lanes: Lanes) -> None:
        """Lanes have met others of their warps: what they wrote to shared memory is seen by those."""
        if not self.plan.shared_variables:
            return
        if lanes.every:
            self._warp_syncs += 1
        else:
            self._lane_tags = self._lane_tags.copy()
            self._lane_tags[lanes.index] += 1 << checks.SYNC_SHIFT

    def lane_tags_of(self, lanes: Lanes) -> np.ndarray:
        """(lanes,) who each lane is, for checks within a warp."""
        return lanes.pick(self._lane_tags) + (self._warp_syncs << checks.SYNC_SHIFT)

    def join_epoch(self, lanes: np.ndarray, epochs: np.ndarray) -> None:
        """Lanes have seen what others did before `epochs`, (lanes,)."""
        shift = np.uint64(checks.EPOCH_SHIFT)
        self.tags = self.tags.copy()
        own = (self.tags[lanes] >> shift).astype(np.int64) & checks.EPOCH_MASK
        later = np.maximum(own, epochs & checks.EPOCH_MASK).astype(np.uint64)
        self.tags[lanes] = self._block_tags[lanes] | later << shift

    # Faults

    def line_of(self, place: int) -> int:
        """The source line of a place or an instruction index."""
        return self.program.lines[place % self.program.size]

    def fault(self, kind: str, message: str, line: int, lanes: Lanes | None = None, position: int = 0) -> Fault:
        """A Fault that names the lane at a position of `lanes`."""
        block = thread = None
        if lanes is not None:
            lane = int(lanes.index[position])
            block = _coordinates(self.first_block + lane // self.threads_per_block, self.plan.grid)
            thread = _coordinates(lane % self.threads_per_block, self.plan.block)
        return Fault(FaultReport(kind, message, self.plan.kernel, line, block, thread))

    # Scheduling

    def run(self, entry: Code) -> None:
        """Runs all lanes from the entry's first instruction to their exit. Raises Fault."""
        self.put(MAX_DEPTH * self.program.size + entry.start, np.arange(self.lanes))
        while True:
            if self.ready:
                self._advance(*self._next_group())
            elif self.alive_count == 0:
                return
            elif not (self.barriers.release() | self.meetings.release()):
                raise self._deadlock()

    def put(self, place: int, index: np.ndarray) -> None:
        """Lanes are ready to go on at a place."""
        self.ready.setdefault(place, []).append(index)

    def lanes_of(self, index: np.ndarray) -> Lanes:
        """The set of the lanes at sorted indices."""
        return Lanes(self, index)

    def leave(self, index: np.ndarray) -> None:
        """Lanes exit."""
        self.alive[index] = False
        self.alive_count -= index.size
        self.alive_in_warp -= np.bincount(self.warp_of_lane[index], minlength=self.warps)

    def frame(self, depth: int, code: Code) -> Frame:
        """The registers of a function at a call depth."""
        frame = self.frames.get((depth, code.name))
        if frame is None:
            frame = self.frames[depth, code.name] = Frame(self, code, depth)
        return frame

    def _next_group(self) -> tuple[int, Lanes]:
        place = min(self.ready)
        return place, self._take(place)

    def _take(self, place: int) -> Lanes:
        parts = self.ready.pop(place)
        return Lanes(self, parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts)))

    def _advance(self, place: int, lanes: Lanes, *, visiting: bool = False) -> None:
        """Runs one group until it parts, waits, exits or reaches another group's place.

        `visiting`: it may pass below groups that it should not wait for, and stops after a few loops.
        """
        program = self.program
        steps, stops, controls = program.steps, program.stops, program.controls
        pc = place % program.size
        base = place - pc
        frame = self.frame(MAX_DEPTH - place // program.size, program.code_at(pc))
        limit = min((p for p in self.ready if p > place), default=_NO_LIMIT) - base
        patience = _SPIN_PATIENCE if visiting else _LOOP_PATIENCE
        while True:
            end = min(stops[pc], limit)
            for step in steps[pc:end]:
                step(frame, lanes)
            if end == limit:
                self._account(pc, end - pc, lanes)
                return self.put(base + end, lanes.index)
            self._account(pc, end - pc + 1, lanes)
            following = controls[end](frame, lanes, base + end)
            if following is None:
                return None
            if following <= end and (self.ready or visiting):
                patience -= program.impatience[end]
                if patience <= 0:
                    self.put(base + following, lanes.index)
                    return None if visiting else self._visit_others(base + following)
            elif following >= limit:
                return self.put(base + following, lanes.index)
            pc = following

    def _visit_others(self, spinning: int) -> None:
        """Lets every other group move a little: the lowest one may be spinning until they do."""
        for place in sorted(self.ready):
            if place != spinning and place in self.ready:
                self._advance(place, self._take(place), visiting=True)

    def _account(self, pc: int, count: int, lanes: Lanes) -> None:
        """Counts `count` instructions from `pc` for the lanes, and enforces the budgets."""
        self.issued += count
        counters = self.counters
        counters.lane_instructions += count * lanes.count
        counters.warp_instructions += count * lanes.warps
        self._heat[pc] += count
        if lanes.every:
            self._steps_all += count
        else:
            self._steps[lanes.index] += count
        self._budget -= count
        if self._budget < 0:
            used = self._steps_all + int(self._steps[self.alive].max(initial=0))
            self._budget = self.plan.limits.instructions_per_thread - used
            if self._budget < 0:
                raise self._timeout(f"{self.plan.limits.instructions_per_thread} instructions in one thread", lanes)
        if self.issued >= self._next_clock_check:
            self._next_clock_check = self.issued + _CLOCK_CHECK
            if time.perf_counter() > self.plan.deadline:
                raise self._timeout(f"{self.plan.limits.seconds:g} seconds", lanes)

    def _timeout(self, what: str, lanes: Lanes) -> Fault:
        hottest = max(range(len(self._heat)), key=self._heat.__getitem__)
        line = self.line_of(hottest)
        rounds = self._heat[hottest] // (self.program.stops[hottest] - hottest + 1)
        where = f"the hottest loop is at line {line}, which ran {rounds} times"
        return self.fault("timeout", f"more than {what}; {where}", line, lanes)

    def _deadlock(self) -> Fault:
        """Every lane that is alive waits for another."""
        index, places, what = self.barriers.waiting()
        also, also_places, also_what = self.meetings.waiting()
        index, places = np.concatenate([index, also]), np.concatenate([places, also_places])
        names = what + also_what
        first_block = self.block_of_lane[index].min()
        mine = self.block_of_lane[index] == first_block
        order = np.argsort(index[mine], kind="stable")
        index, places = index[mine][order], places[mine][order]
        names = [name for name, keep in zip(names, mine, strict=True) if keep]
        names = [names[i] for i in order]
        groups: dict[tuple[int, str], int] = {}
        for place, name in zip(places, names, strict=True):
            key = (self.line_of(int(place) - 1), name)
            groups[key] = groups.get(key, 0) + 1
        where = ", ".join(f"{count} at line {line} ({name})" for (line, name), count in groups.items())
        line = self.line_of(int(places[0]) - 1)
        return self.fault("barrier", f"deadlock, threads wait for ever: {where}", line, Lanes(self, index))


def _coordinates(linear: int, extent: tuple[int, int, int]) -> tuple[int, int, int]:
    x, y, _ = extent
    return linear % x, linear // x % y, linear // (x * y)


Step = Callable[[Frame, Lanes], None]
Control = Callable[[Frame, Lanes, int], "int | None"]
