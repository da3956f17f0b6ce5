"""Block barriers: bar.sync, bar.red, bar.arrive. Threads count, exited ones do not; a count is in whole warps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from leap_jax.kernels.emulator.wave import Frame, Lanes, Wave

BARRIERS = 16
_NONE = -1


class Barriers:
    """Who waits at which of a block's 16 barriers.

    A barrier without a thread count opens when every living thread of the block waits at it; one with a count, when
    as many have arrived.
    """

    def __init__(self, wave: Wave):
        self._wave = wave
        self._id = np.full(wave.lanes, _NONE, np.int8)
        self._place = np.zeros(wave.lanes, np.int64)  # where to go on
        self._aligned = np.zeros(wave.lanes, bool)
        self._count = np.zeros(wave.lanes, np.int64)  # 0: all threads
        self._vote = np.zeros(wave.lanes, bool)
        self._arrived = np.zeros((wave.blocks, BARRIERS), np.int64)  # threads that arrived without waiting
        self._results: dict[int, tuple[Frame, int, str]] = {}

    def pass_all(self, frame: Frame, lanes: Lanes, reduction: tuple[int, str] | None, vote: np.ndarray | None) -> None:
        """All living lanes are at one barrier together."""
        self._wave.next_epoch(None)
        self._wave.counters.barriers += self._wave.blocks
        if reduction is not None:
            full = np.broadcast_to(vote, lanes.count)
            frame.write(reduction[0], self._reduce(lanes.index, full, reduction[1]), lanes)

    def wait(
        self,
        lanes: Lanes,
        place: int,
        barrier: int,
        count: int,
        aligned: bool,
        result: tuple[Frame, int, str] | None = None,
        vote: np.ndarray | None = None,
    ) -> None:
        """Lanes wait; `place` is where they go on. `result`: frame, register slot and popc, and, or."""
        index = lanes.index
        self._id[index] = barrier
        self._place[index] = place
        self._count[index] = count
        self._aligned[index] = aligned
        if result is not None:
            self._vote[index] = vote
            self._results[place] = result
        self.release()

    def arrive(self, lanes: Lanes, barrier: int) -> None:
        """Lanes arrive and do not wait."""
        _, warps = lanes.row_positions
        blocks = warps // self._wave.warps_per_block
        np.add.at(self._arrived[:, barrier], blocks, 32)
        self.release()

    def release(self) -> bool:
        """Opens every barrier that is complete. Raises Fault for threads that met at different places."""
        opened = False
        for barrier in np.unique(self._id[self._id != _NONE]):
            waiting = np.flatnonzero(self._id == barrier)
            blocks = self._wave.block_of_lane[waiting]
            here = np.bincount(blocks, minlength=self._wave.blocks)
            alive = self._wave.alive_in_warp.reshape(self._wave.blocks, -1).sum(axis=1)
            counts = np.zeros(self._wave.blocks, np.int64)
            counts[blocks] = self._count[waiting]
            arrived = self._arrived_threads(waiting) + self._arrived[:, barrier]
            complete = (here > 0) & np.where(counts == 0, here == alive, (counts > 0) & (arrived >= counts))
            chosen = waiting[complete[blocks]]
            if chosen.size:
                self._arrived[complete, barrier] = 0
                self._open(chosen)
                opened = True
        return opened

    def waiting(self) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """Lanes that wait, where they would go on, and at what."""
        index = np.flatnonzero(self._id != _NONE)
        return index, self._place[index], [f"barrier {self._id[lane]}" for lane in index]

    def _arrived_threads(self, waiting: np.ndarray) -> np.ndarray:
        """(blocks,) 32 for each warp whose living lanes all wait."""
        wave = self._wave
        here = np.bincount(wave.warp_of_lane[waiting], minlength=wave.warps)
        return ((here > 0) & (here == wave.alive_in_warp)).reshape(wave.blocks, -1).sum(axis=1) * 32

    def _open(self, index: np.ndarray) -> None:
        wave = self._wave
        places, blocks = self._place[index], wave.block_of_lane[index]
        first = np.flatnonzero(np.diff(blocks, prepend=-1))
        expected = np.repeat(places[first], np.diff(first, append=index.size))
        wrong = (places != expected) & self._aligned[index] & (self._count[index] == 0)
        if wrong.any():
            position = int(np.argmax(wrong))
            lines = sorted({wave.line_of(int(p[position]) - 1) for p in (places, expected)})
            raise wave.fault(
                "barrier",
                "threads of one block wait at different __syncthreads() calls: "
                + (f"lines {lines[0]} and {lines[1]}" if len(lines) > 1 else f"both in line {lines[0]}"),
                wave.line_of(int(places[position]) - 1),
                wave.lanes_of(index),
                position,
            )
        self._id[index] = _NONE
        wave.next_epoch(None if index.size == wave.alive_count else index)
        wave.counters.barriers += int(first.size)
        for place in np.unique(places):
            part = index[places == place]
            result = self._results.get(int(place))
            if result is not None:
                frame, slot, operation = result
                value = self._reduce(index, self._vote[index], operation)[places == place]
                frame.write(slot, value, wave.lanes_of(part))
            wave.put(int(place), part)

    def _reduce(self, index: np.ndarray, vote: np.ndarray, operation: str) -> np.ndarray:
        """(index.size,) each block's result, for each of its lanes."""
        blocks = self._wave.block_of_lane[index]
        hits = np.bincount(blocks[vote], minlength=self._wave.blocks)
        if operation == "popc":
            return hits.astype(np.uint32)[blocks]
        total = np.bincount(blocks, minlength=self._wave.blocks)
        return ((hits > 0) if operation == "or" else (hits == total))[blocks]
