"""Operations between the lanes of a warp: shfl, vote, match, redux, bar.warp.sync, activemask, elect.

An operation works on (warps, 32) arrays. Lanes wait until every living lane of their mask has come to the same kind
of operation, at whichever instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from leap_jax.kernels.emulator import ir
from leap_jax.kernels.emulator.isa import DTYPES, UnsupportedOpcode

if TYPE_CHECKING:
    from leap_jax.kernels.emulator.wave import Frame, Lanes, Wave

WARP = 32
ALL_LANES = 0xFFFFFFFF
_LANE = np.arange(WARP, dtype=np.int64)[None]
_BIT = np.uint32(1) << _LANE.astype(np.uint32)
_ABSENT = 0x7FFFDEAD  # what a shuffle reads from a lane that takes no part: a NaN

# compute(values, masks, present) -> results; values are (warps, 32) or (1, 1), masks and present (warps, 32)
Compute = Callable[[Sequence[np.ndarray], np.ndarray, np.ndarray], tuple[np.ndarray, ...]]


@dataclass(frozen=True, slots=True)
class WarpOperation:
    """name: equal for instructions that may meet. sources: type codes of the operands before the mask."""

    name: str
    compute: Compute
    sources: tuple[str, ...]


def warp_operation(instruction: ir.Instruction) -> WarpOperation:
    """The semantics of a warp-synchronous instruction. Raises UnsupportedOpcode."""
    modifiers = instruction.modifiers
    mode = next((m for m in modifiers if m in _COMPUTE.get(instruction.opcode, {})), None)
    if mode is None or "sync" not in modifiers:
        raise UnsupportedOpcode(instruction)
    compute = _COMPUTE[instruction.opcode][mode]
    code = modifiers[-1]
    if instruction.opcode == "shfl":
        sources = ("b32", "u32", "u32")
    elif instruction.opcode == "vote":
        sources = ("pred",)
    elif instruction.opcode in ("bar", "elect"):
        sources = ()
    elif code in DTYPES:
        sources = (code,)
    else:
        raise UnsupportedOpcode(instruction)
    return WarpOperation(f"{instruction.opcode}.{'.'.join(modifiers)}", compute, sources)


class Meetings:
    """Lanes that wait for other lanes of their warp at a warp operation."""

    def __init__(self, wave: Wave):
        self._wave = wave
        self._meetings: dict[str, _Meeting] = {}

    def meet(
        self,
        operation: WarpOperation,
        frame: Frame,
        lanes: Lanes,
        place: int,
        values: Sequence[np.ndarray],
        masks: np.ndarray,
        results: Sequence[int | None],
        line: int,
    ) -> bool:
        """Runs the operation if nobody has to wait, and says so; else the lanes wait, to go on after `place`."""
        self._check_masks(masks, lanes, line)
        if lanes.every or lanes.closed:
            for slot, value in zip(results, self.run(operation, lanes, values, masks), strict=True):
                if slot is not None:
                    frame.write(slot, value, lanes)
            return True
        meeting = self._meetings.get(operation.name)
        if meeting is None:
            meeting = self._meetings[operation.name] = _Meeting(operation, self._wave.lanes)
        meeting.add(frame, lanes, place, values, masks, results)
        self._release(meeting)
        return False

    def release(self) -> bool:
        """Runs what has become complete because lanes exited."""
        return any([self._release(meeting) for meeting in self._meetings.values()])

    def waiting(self) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """Lanes that wait, where they would go on, and at what."""
        index, places, names = [np.empty(0, np.int64)], [np.empty(0, np.int64)], []
        for meeting in self._meetings.values():
            here = np.flatnonzero(meeting.present)
            index.append(here)
            places.append(meeting.place[here] + 1)
            names += [meeting.operation.name] * here.size
        return np.concatenate(index), np.concatenate(places), names

    def _check_masks(self, masks: np.ndarray, lanes: Lanes, line: int) -> None:
        if masks.size == 1 and int(masks[0]) == ALL_LANES:
            return
        own = (masks >> self._wave.lane_in_warp[lanes.index].astype(np.uint32)) & 1
        if not own.all():
            position = int(np.argmin(own))
            mask = int(np.broadcast_to(masks, lanes.count)[position])
            raise self._wave.fault(
                "barrier",
                f"a thread takes part in a warp operation whose mask {mask:#x} lacks it",
                line,
                lanes,
                position,
            )

    def _release(self, meeting: _Meeting) -> bool:
        wave = self._wave
        index = np.flatnonzero(meeting.present)
        if not index.size:
            return False
        warps = wave.warp_of_lane[index]
        absent = np.zeros((wave.warps, WARP), bool)
        alive = np.flatnonzero(wave.alive & ~meeting.present)
        absent[wave.warp_of_lane[alive], wave.lane_in_warp[alive]] = True
        missing = pack_bits(absent)
        index = index[(meeting.masks[index] & missing[warps]) == 0]
        if not index.size:
            return False
        lanes = wave.lanes_of(index)
        values = [lanes.pick(value) for value in meeting.values]
        outcome = self.run(meeting.operation, lanes, values, meeting.masks[index])
        places = meeting.place[index]
        meeting.present[index] = False
        for place in np.unique(places):
            here = places == place
            frame, slots = meeting.results[int(place)]
            part = wave.lanes_of(index[here])
            for slot, value in zip(slots, outcome, strict=True):
                if slot is not None:
                    frame.write(slot, value if value.size == 1 else value[here], part)
            wave.put(int(place) + 1, part.index)
        return True

    def run(
        self, operation: WarpOperation, lanes: Lanes, values: Sequence[np.ndarray], masks: np.ndarray
    ) -> list[np.ndarray]:
        """The results for each of the lanes."""
        self._wave.synchronise_warps(lanes)
        if lanes.all and self._wave.whole_warps:
            rows = [value.reshape((1, 1) if value.size == 1 else (-1, WARP)) for value in values]
            shape = (self._wave.warps, WARP)
            masks = np.broadcast_to(masks, lanes.count).reshape(shape)
            outcome = operation.compute(rows, masks, np.ones(shape, bool))
            return [np.ascontiguousarray(np.broadcast_to(result, shape)).reshape(-1) for result in outcome]
        positions, warps = lanes.row_positions
        shape = (warps.size, WARP)

        def spread(array: np.ndarray) -> np.ndarray:
            full = np.zeros(warps.size * WARP, array.dtype)
            full[positions] = array
            return full.reshape(shape)

        rows = [value.reshape(1, 1) if value.size == 1 else spread(value) for value in values]
        outcome = operation.compute(rows, spread(masks), spread(np.ones(1, bool)))
        return [np.broadcast_to(result, shape).reshape(-1)[positions] for result in outcome]


class _Meeting:
    """The lanes that wait at one kind of operation, with the operands they brought."""

    def __init__(self, operation: WarpOperation, lanes: int):
        self.operation = operation
        self.present = np.zeros(lanes, bool)
        self.masks = np.zeros(lanes, np.uint32)
        self.place = np.zeros(lanes, np.int64)
        self.values = [np.zeros(lanes, DTYPES[code]) for code in operation.sources]
        self.results: dict[int, tuple[Frame, Sequence[int | None]]] = {}

    def add(
        self,
        frame: Frame,
        lanes: Lanes,
        place: int,
        values: Sequence[np.ndarray],
        masks: np.ndarray,
        results: Sequence[int | None],
    ) -> None:
        index = lanes.index
        self.present[index] = True
        self.masks[index] = masks
        self.place[index] = place
        for store, value in zip(self.values, values, strict=True):
            store[index] = value
        self.results[place] = frame, results


def pack_bits(flags: np.ndarray) -> np.ndarray:
    """(warps, 32) bool -> (warps,) u32, lane 0 in bit 0."""
    return np.packbits(flags, axis=1, bitorder="little").view("<u4").reshape(-1).astype(np.uint32, copy=False)


def active_mask(lanes: Lanes) -> np.ndarray:
    """(count,) u32: the lanes of each lane's warp that run with it."""
    positions, warps = lanes.row_positions
    flags = np.zeros(warps.size * WARP, bool)
    flags[positions] = True
    return pack_bits(flags.reshape(-1, WARP))[positions // WARP]


def _shuffle(source_lane: Callable) -> Compute:
    def compute(values: Sequence[np.ndarray], masks: np.ndarray, present: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, b, clamp = values
        b, clamp = b.astype(np.int64) & 31, clamp.astype(np.int64)
        segment = clamp >> 8 & 31
        low = _LANE & segment
        high = low | (clamp & 31 & ~segment)
        source, valid = source_lane(b, segment, low, high)
        source = np.where(valid, source, _LANE)
        value = np.broadcast_to(value, present.shape)
        if source.shape[0] == 1:
            fetched, taking_part = value[:, source[0]], present[:, source[0]]
        else:
            fetched, taking_part = (np.take_along_axis(x, source, axis=1) for x in (value, present))
        if not taking_part.all():
            fetched = np.where(taking_part, fetched, value.dtype.type(_ABSENT))
        return fetched, valid

    return compute


def _bounded(source: np.ndarray, valid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.clip(source, 0, WARP - 1), valid


_SHUFFLES = {
    "up": lambda b, segment, low, high: _bounded(_LANE - b, _LANE - b >= high),
    "down": lambda b, segment, low, high: _bounded(_LANE + b, _LANE + b <= high),
    "bfly": lambda b, segment, low, high: _bounded(_LANE ^ b, (_LANE ^ b) <= high),
    "idx": lambda b, segment, low, high: _bounded(low | (b & ~segment), (low | (b & ~segment)) <= high),
}


def _ballot(values: Sequence[np.ndarray], masks: np.ndarray, present: np.ndarray) -> tuple[np.ndarray]:
    return (pack_bits(np.broadcast_to(values[0], present.shape) & present)[:, None] & masks,)


def _vote(decide: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Compute:
    def compute(values: Sequence[np.ndarray], masks: np.ndarray, present: np.ndarray) -> tuple[np.ndarray]:
        (yes,) = _ballot(values, masks, present)
        return (decide(yes, masks & pack_bits(present)[:, None]),)

    return compute


_VOTES = {
    "any": _vote(lambda yes, voters: yes != 0),
    "all": _vote(lambda yes, voters: yes == voters),
    "uni": _vote(lambda yes, voters: (yes == 0) | (yes == voters)),
    "ballot": _ballot,
}


def _equal_bits(values: Sequence[np.ndarray], masks: np.ndarray, present: np.ndarray) -> np.ndarray:
    """(warps, 32) u32: the lanes of the mask whose value equals the lane's own."""
    value = np.broadcast_to(values[0], present.shape)
    same = (value[:, :, None] == value[:, None, :]) & present[:, None, :]
    return (same * _BIT[0]).sum(axis=2, dtype=np.uint32) & masks


def _match_any(values: Sequence[np.ndarray], masks: np.ndarray, present: np.ndarray) -> tuple[np.ndarray]:
    return (_equal_bits(values, masks, present),)


def _match_all(values: Sequence[np.ndarray], masks: np.ndarray, present: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    voters = masks & pack_bits(present)[:, None]
    agree = _equal_bits(values, masks, present) == voters
    return np.where(agree, voters, np.uint32(0)), agree


def _redux(combine: np.ufunc, identity: Callable[[np.dtype], int]) -> Compute:
    def compute(values: Sequence[np.ndarray], masks: np.ndarray, present: np.ndarray) -> tuple[np.ndarray]:
        value = np.broadcast_to(values[0], present.shape)
        result = np.zeros(present.shape, value.dtype)
        for mask in np.unique(masks[present]):
            member = present & (masks == mask)
            kept = np.where(member, value, value.dtype.type(identity(value.dtype)))
            total = combine.reduce(kept, axis=1, dtype=value.dtype)
            result = np.where(member, total[:, None], result)
        return (result,)

    return compute


def _all_ones(dtype: np.dtype) -> int:
    return -1 if dtype.kind == "i" else np.iinfo(dtype).max


def _no_results(values: Sequence[np.ndarray], masks: np.ndarray, present: np.ndarray) -> tuple[()]:
    return ()


def _elect(values: Sequence[np.ndarray], masks: np.ndarray, present: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    voters = masks & pack_bits(present)[:, None]
    leader = np.bitwise_count((voters & (~voters + np.uint32(1))) - np.uint32(1)).astype(np.uint32)
    return leader, leader == _LANE


_COMPUTE: dict[str, dict[str, Compute]] = {
    "shfl": {name: _shuffle(source) for name, source in _SHUFFLES.items()},
    "vote": _VOTES,
    "match": {"any": _match_any, "all": _match_all},
    "redux": {
        "add": _redux(np.add, lambda dtype: 0),
        "min": _redux(np.minimum, lambda dtype: np.iinfo(dtype).max),
        "max": _redux(np.maximum, lambda dtype: np.iinfo(dtype).min),
        "and": _redux(np.bitwise_and, _all_ones),
        "or": _redux(np.bitwise_or, lambda dtype: 0),
        "xor": _redux(np.bitwise_xor, lambda dtype: 0),
    },
    "bar": {"warp": _no_results},
    "elect": {"sync": _elect},
}
