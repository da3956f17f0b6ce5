"""Whether an access is allowed: bounds, alignment, definedness, and races; and the faults that say it is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from leap_jax.kernels.emulator.memory import (
    DEFINED,
    GLOBAL_SLOT_BITS,
    TAG_BITS,
    WINDOW_SLOT_BITS,
    Allocation,
    all_defined,
)
from leap_jax.kernels.verdict import FaultReport

if TYPE_CHECKING:
    from leap_jax.kernels.emulator.wave import Lanes, Wave

# A tag says who touched a word: block, barrier epoch, warp, whether atomically, and at which instruction.
PC_BITS = 16
ATOMIC = 1 << PC_BITS
WARP_SHIFT = PC_BITS + 1
EPOCH_SHIFT = WARP_SHIFT + 5
BLOCK_SHIFT = EPOCH_SHIFT + 20
# A lane tag says which lane of which warp of the wave wrote a word, after how many warp synchronisations.
LANE_BITS = 5
SYNC_SHIFT = 29
EPOCH_MASK = (1 << (BLOCK_SHIFT - EPOCH_SHIFT)) - 1
BLOCK_MASK = (1 << (64 - BLOCK_SHIFT)) - 1
_WORD = 4
_LOG_LIMIT = 1 << 20  # lane accesses
_LANE_LOG_LIMIT = 64  # writes


class Fault(Exception):
    """A kernel did something that is not allowed. `.report` says what, where and by whom."""

    def __init__(self, report: FaultReport):
        self.report = report
        super().__init__(f"{report.kind}: {report.message}")


@dataclass(frozen=True, slots=True)
class Access:
    """What a memory instruction does: verb is read, write or atomic; width is the bytes of the whole vector."""

    verb: str
    space: str  # global, shared, local, or generic
    width: int
    line: int
    pc: int
    strong: bool = False  # atomic, volatile or relaxed: does not race with its like

    @property
    def tag(self) -> int:
        return min(self.pc, ATOMIC - 1) | (ATOMIC if self.strong else 0)


def locate(
    wave: Wave, access: Access, addresses: np.ndarray, displacement: int
) -> tuple[Allocation, np.ndarray] | None:
    """The allocation that all `addresses + displacement` lie in, and their byte offsets, as (lanes,) or (1,).

    None if they are not all inside one allocation, or one is misaligned: `explain` tells which.
    """
    mask = (1 << (addresses.itemsize * 8)) - 1
    allocation = wave.find(access.space, (int(addresses[0]) + displacement) & mask)
    if allocation is None:
        return None
    base = allocation.generic if access.space == "generic" else allocation.base
    offsets = addresses - addresses.dtype.type((base - displacement) & mask)
    bits = int(np.bitwise_or.reduce(offsets))  # at least the largest offset
    last = allocation.size - access.width
    if bits & (access.width - 1) or (bits > last and int(np.maximum.reduce(offsets)) > last):
        return None
    return allocation, offsets


def explain(wave: Wave, access: Access, addresses: np.ndarray, displacement: int, lanes: Lanes) -> list[Lanes]:
    """Lanes parted by allocation, where `locate` found several. Raises Fault for the first lane that is at fault."""
    mask = (1 << (addresses.itemsize * 8)) - 1
    full = np.broadcast_to(addresses + addresses.dtype.type(displacement & mask), lanes.count).astype(np.uint64)
    small_slots = access.space in ("shared", "local") or (access.space == "generic") & (full >> TAG_BITS != 0)
    owners = full >> np.where(small_slots, np.uint64(WINDOW_SLOT_BITS), np.uint64(GLOBAL_SLOT_BITS))
    found, part_of_lane = np.unique(owners, return_inverse=True)
    if found.size > 1:
        return [lanes.subset(part_of_lane == part) for part in range(found.size)]
    allocation = wave.find(access.space, int(full[0]))
    if allocation is None:
        where = "null pointer" if int(full[0]) < 4096 else f"address {int(full[0]):#x}"
        raise wave.fault("memory_fault", f"{_invalid(access, '')}: {where} is in no allocation", access.line, lanes, 0)
    base = allocation.generic if access.space == "generic" else allocation.base
    offsets = full.view(np.int64) - np.int64(base)
    outside = (offsets < 0) | (offsets > allocation.size - access.width)
    position = int(np.argmax(outside | (offsets & (access.width - 1) != 0)))
    offset = int(offsets[position])
    if outside[position]:
        kind, message = "memory_fault", f"{_invalid(access, allocation.space)}: {allocation.describe(offset)}"
    else:
        kind = "misaligned"
        message = (
            f"misaligned {allocation.space} {access.verb} of {access.width} bytes: {allocation.describe(offset)}, "
            f"byte offset {offset} is not a multiple of {access.width}"
        )
    raise wave.fault(kind, message, access.line, lanes, position)


def _invalid(access: Access, space: str) -> str:
    space = space or ("" if access.space == "generic" else access.space)
    return f"invalid {space} {access.verb} of {access.width} bytes".replace("  ", " ")


def require_defined(
    wave: Wave, access: Access, allocation: Allocation, elements: np.ndarray, count: int, lanes: Lanes
) -> None:
    """Raises Fault if a lane reads a byte that nothing stored. `elements` are of width / count bytes, `count` each."""
    size = access.width // count
    seen = allocation.flag_view(size, count).take(elements, axis=0)
    if int(seen.min()) == all_defined(size):
        return
    undefined = np.broadcast_to((seen != all_defined(size)).reshape(elements.size, count).any(axis=1), lanes.count)
    position = int(np.argmax(undefined))
    element = int(np.broadcast_to(elements, lanes.count)[position])
    start = element * access.width
    byte = start + int(np.argmax(allocation.flags[start : start + access.width] != DEFINED))
    raise wave.fault(
        "uninitialised",
        f"uninitialised {allocation.space} read of {access.width} bytes: "
        f"{allocation.describe(byte % allocation.stride)} was never written",
        access.line,
        lanes,
        position,
    )


class Shadow:
    """Who last touched each word of an allocation, to find races.

    A race: two warps of a block in one barrier epoch, or (across_blocks) two blocks in one launch, touch a word, one
    of them writes it, not both with atomics, and a second write changes the value; in shared memory also two lanes of
    a warp that reads what the other wrote without synchronising. Reads go to a log that is folded in only when
    a write follows, so that a phase that only reads costs next to nothing; so do the lanes of writes.
    """

    def __init__(self, allocation: Allocation, across_blocks: bool):
        self.allocation, self.across_blocks = allocation, across_blocks
        self.dirty = False  # written since the last barrier of all blocks, or ever if across blocks
        self._unit = _WORD
        self._has_readers = False
        self._writers, self._readers, self._others = (
            np.zeros(allocation.data.size // _WORD, np.uint64) for _ in range(3)
        )
        self._log: list[tuple[Access, np.ndarray, np.ndarray, int]] = []
        self._logged = 0
        self._lanes: np.ndarray | None = None  # lane tags, made when they are first needed
        self._lane_log: list[tuple[Access, np.ndarray, np.ndarray]] = []

    def barrier(self) -> None:
        """All warps of all blocks in flight have met: what they did before races with nothing after."""
        if not self.across_blocks:
            self._log.clear()
            self._lane_log.clear()
            self._logged = 0
            self.dirty = self._has_readers = False

    def read(self, wave: Wave, access: Access, elements: np.ndarray, lanes: Lanes) -> None:
        """Records a read. Raises Fault if it races with an earlier write."""
        entry = access, elements, lanes.pick(wave.tags), lanes.count
        if self.dirty:
            units, tags = self._expand(*entry)
            prior = self._writers.take(units)
            racing = self._racing(prior, tags)
            if racing is not None:
                self._report(wave, access, lanes, racing, prior, units, "writes")
            if self.allocation.space == "shared":
                self._require_synchronised(wave, access, lanes, units, prior, tags)
        self._log.append(entry)
        self._logged += lanes.count
        if self._logged > _LOG_LIMIT:
            self._absorb()

    def write(self, wave: Wave, access: Access, elements: np.ndarray, values: np.ndarray | None, lanes: Lanes) -> None:
        """Records a write of `values` ((lanes, count) in units of the access; None if atomic), before it happens.

        Raises Fault if it races with an earlier access or between the lanes themselves.
        """
        units, tags = self._expand(access, elements, lanes.pick(wave.tags), lanes.count)
        if self._log:
            self._absorb()
        if self._has_readers:
            for readers in (self._readers, self._others):
                prior = readers.take(units)
                racing = self._racing(prior, tags)
                if racing is not None:
                    self._report(wave, access, lanes, racing, prior, units, "reads")
        if self.dirty:
            prior = self._writers.take(units)
            racing = self._racing(prior, tags)
            if racing is not None:
                racing &= self._changes(access, elements, values, units.size)
                if racing.any():
                    self._report(wave, access, lanes, racing, prior, units, "writes")
        self.dirty = True
        self._writers[units] = tags
        if self.allocation.space == "shared":
            self._lane_log.append((access, elements, wave.lane_tags_of(lanes)))
            if len(self._lane_log) > _LANE_LOG_LIMIT:
                self._absorb_lanes()
        last = self._writers.take(units)
        racing = self._racing(last, tags)
        if racing is not None:
            racing &= _differs_from_last(access, units, values, lanes.count)
            if racing.any():
                self._report(wave, access, lanes, racing, last, units, "writes")

    def _expand(
        self, access: Access, elements: np.ndarray, tags: np.ndarray, count: int, marked: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """The shadow units that each lane touches, and who touches them (`marked`: how). `tags`: of the lanes."""
        if access.width < self._unit:
            self._refine()
        if marked:
            tags = tags | np.uint64(access.tag)
        if elements.size != count:
            elements = np.broadcast_to(elements, count)
        parts = access.width // self._unit
        if parts == 1:
            return elements, tags
        return (elements[:, None] * parts + np.arange(parts)).reshape(-1), np.repeat(tags, parts)

    def _refine(self) -> None:
        """From words to bytes, on the first access narrower than a word."""
        self._unit, previous = 1, self._unit
        self._writers, self._readers, self._others = (
            np.repeat(table, previous) for table in (self._writers, self._readers, self._others)
        )

    def _racing(self, prior: np.ndarray, tags: np.ndarray) -> np.ndarray | None:
        """Which accesses race with earlier ones of `prior` tags (0: none); None if no one does."""
        if _same_owners(prior, tags):
            return None
        who = (prior ^ tags) >> np.uint64(WARP_SHIFT)
        racing = who - np.uint64(1) < np.uint64(31)
        if self.across_blocks:
            racing |= (who >> np.uint64(BLOCK_SHIFT - WARP_SHIFT) != 0) & (prior != 0)
        racing &= (prior & tags & np.uint64(ATOMIC)) == 0
        return racing if racing.any() else None

    def _require_synchronised(
        self, wave: Wave, access: Access, lanes: Lanes, units: np.ndarray, prior: np.ndarray, tags: np.ndarray
    ) -> None:
        """Raises Fault if a lane reads what another lane of its warp wrote since the warp last synchronised."""
        own_warp = ((prior ^ tags) >> np.uint64(WARP_SHIFT) == 0) & ((prior & tags & np.uint64(ATOMIC)) == 0)
        if not own_warp.any():
            return
        self._absorb_lanes()
        mine = np.repeat(wave.lane_tags_of(lanes), units.size // lanes.count)
        who = self._lanes.take(units) ^ mine
        racing = own_warp & (who > 0) & (who < 1 << LANE_BITS)
        if not racing.any():
            return
        found = int(np.argmax(racing))
        position = found // self._parts(access)
        byte = int(units[found]) * self._unit % self.allocation.stride
        lane = int(lanes.index[position])
        writer = int(wave.thread_of_lane[lane]) ^ int(who[found])
        raise wave.fault(
            "race",
            f"shared race on {self.allocation.describe(byte)}: line {wave.line_of(int(prior[found]) & (ATOMIC - 1))} "
            f"writes in thread {writer}, line {access.line} reads in another of its warp, "
            "no __syncwarp() between them",
            access.line,
            lanes,
            position,
        )

    def _absorb_lanes(self) -> None:
        """Folds the log of writing lanes into the table."""
        if self._lanes is None or self._lanes.size != self._writers.size:
            self._lanes = np.zeros(self._writers.size, np.int64)
        for access, elements, lane_tags in self._lane_log:
            units, tags = self._expand(access, elements, lane_tags, lane_tags.size, marked=False)
            self._lanes[units] = tags
        self._lane_log.clear()

    def _absorb(self) -> None:
        """Folds the log of reads into the tables: the last reader of each unit, and one other that differs."""
        for entry in self._log:
            units, tags = self._expand(*entry)
            prior = self._readers.take(units)
            self._keep_other(units, prior, tags)
            self._readers[units] = tags
            last = self._readers.take(units)
            self._keep_other(units, tags, last)
        self._has_readers = self._has_readers or bool(self._log)
        self._log.clear()
        self._logged = 0

    def _keep_other(self, units: np.ndarray, candidate: np.ndarray, reader: np.ndarray) -> None:
        if _same_owners(candidate, reader):
            return
        differs = ((candidate ^ reader) >> np.uint64(WARP_SHIFT) != 0) & (candidate != 0)
        units, candidate, reader = units[differs], candidate[differs], reader[differs]
        if self.across_blocks:  # a reader in another block stays: it races with every later write
            block = np.uint64(BLOCK_SHIFT)
            other = self._others.take(units)
            replace = (candidate >> block != reader >> block) | (other == 0) | (other >> block == reader >> block)
            units, candidate = units[replace], candidate[replace]
        self._others[units] = candidate

    def _changes(self, access: Access, elements: np.ndarray, values: np.ndarray | None, units: int) -> np.ndarray:
        """(units,) whether each unit's access would change memory."""
        if values is None:
            return np.ones(units, bool)
        count = values.shape[1]
        current = self.allocation.view(access.width // count, count).take(elements, axis=0)
        differs = current.reshape(-1, count) != values
        differs = differs.any(axis=1)
        return np.repeat(np.broadcast_to(differs, units // self._parts(access)), self._parts(access))

    def _parts(self, access: Access) -> int:
        return access.width // self._unit

    def _report(
        self,
        wave: Wave,
        access: Access,
        lanes: Lanes,
        racing: np.ndarray,
        prior: np.ndarray,
        units: np.ndarray,
        verb: str,
    ) -> None:
        found = int(np.argmax(racing))
        position = found // self._parts(access)
        earlier = int(np.broadcast_to(prior, units.shape)[found])
        mine = int(lanes.pick(wave.tags)[position])
        byte = int(units[found]) * self._unit % self.allocation.stride
        line = wave.line_of(earlier & (ATOMIC - 1))
        same_block = earlier >> BLOCK_SHIFT == mine >> BLOCK_SHIFT
        if same_block:
            who, missing = f"warp {earlier >> WARP_SHIFT & 31}", "no barrier between them"
        else:
            who, missing = "another block", "blocks are not ordered"
        own = {"read": "reads", "write": "writes", "atomic": "updates"}[access.verb]
        raise wave.fault(
            "race",
            f"{self.allocation.space} race on {self.allocation.describe(byte)}: line {line} {verb} in {who}, "
            f"line {access.line} {own} in warp {mine >> WARP_SHIFT & 31}, {missing}",
            access.line,
            lanes,
            position,
        )


def _same_owners(prior: np.ndarray, tags: np.ndarray) -> bool:
    """Whether nobody came before, or only the lanes' own warps in their present epochs."""
    return int(np.maximum.reduce(prior ^ tags)) >> WARP_SHIFT == 0 or not prior.any()


def _differs_from_last(access: Access, units: np.ndarray, values: np.ndarray | None, lanes: int) -> np.ndarray:
    """(units,) whether a lane's value differs from that of the last lane that writes the same unit."""
    if values is None:
        return np.ones(units.size, bool)
    parts = units.size // lanes
    values = np.broadcast_to(values, (lanes, values.shape[1]))
    _, first, group = np.unique(units[::-1], return_index=True, return_inverse=True)
    last = (units.size - 1 - first)[group[::-1]] // parts
    return (values[last] != values[np.arange(units.size) // parts]).any(axis=1)


def track(
    wave: Wave,
    access: Access,
    allocation: Allocation,
    elements: np.ndarray,
    values: np.ndarray | None,
    lanes: Lanes,
) -> None:
    """Race bookkeeping of one access that is about to happen. Raises Fault."""
    if allocation.in_flight is not None:
        allocation.in_flight.check(wave, access, allocation, elements, lanes)
    if allocation.space == "local" or (allocation.space == "global" and not allocation.writable):
        return
    shadow = allocation.shadow
    if shadow is None:
        if wave.warps_per_block == 1 and allocation.space == "global" and wave.blocks_of_launch == 1:
            return
        shadow = allocation.shadow = Shadow(allocation, allocation.space == "global" and not wave.fences)
        if allocation.space == "global":
            wave.launch_shadows.append(allocation)
    if access.verb == "read":
        shadow.read(wave, access, elements, lanes)
    else:
        shadow.write(wave, access, elements, values, lanes)
