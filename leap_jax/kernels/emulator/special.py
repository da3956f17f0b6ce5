"""Special registers: who a thread is. Values that all lanes share are (1,)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from leap_jax.kernels.emulator.wave import Wave

CLOCKS = frozenset({"clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi"})

_AXES = {"x": 0, "y": 1, "z": 2}


def _component(linear: np.ndarray, extent: tuple[int, int, int], axis: int) -> np.ndarray:
    if extent[axis] == 1:
        return np.zeros(1, np.int64)
    if axis == 0:
        return linear % extent[0]
    if axis == 1:
        return linear // extent[0] % extent[1]
    return linear // (extent[0] * extent[1])


def _thread(wave: Wave, axis: int) -> np.ndarray:
    return _component(wave.thread_of_lane, wave.plan.block, axis)


def _block(wave: Wave, axis: int) -> np.ndarray:
    linear = wave.block_of_lane if wave.blocks > 1 else np.zeros(1, np.int64)
    return _component(linear + wave.first_block, wave.plan.grid, axis)


def _uniform(value: Callable[[Wave], int]) -> Callable[[Wave], np.ndarray]:
    return lambda wave: np.array([value(wave)], np.int64)


def _lane_mask(mask: Callable[[np.ndarray], np.ndarray]) -> Callable[[Wave], np.ndarray]:
    return lambda wave: mask(np.int64(1) << wave.lane_in_warp) & 0xFFFFFFFF


SPECIALS: dict[str, Callable[[Wave], np.ndarray]] = {
    **{f"tid.{name}": lambda wave, axis=axis: _thread(wave, axis) for name, axis in _AXES.items()},
    **{f"ctaid.{name}": lambda wave, axis=axis: _block(wave, axis) for name, axis in _AXES.items()},
    **{f"ntid.{name}": _uniform(lambda wave, axis=axis: wave.plan.block[axis]) for name, axis in _AXES.items()},
    **{f"nctaid.{name}": _uniform(lambda wave, axis=axis: wave.plan.grid[axis]) for name, axis in _AXES.items()},
    "laneid": lambda wave: wave.lane_in_warp,
    "warpid": lambda wave: wave.thread_of_lane // 32,
    "nwarpid": _uniform(lambda wave: wave.warps_per_block),
    "smid": _uniform(lambda wave: 0),
    "nsmid": _uniform(lambda wave: 1),
    "gridid": _uniform(lambda wave: 1),
    "dynamic_smem_size": _uniform(lambda wave: wave.plan.shared_bytes),
    "total_smem_size": _uniform(lambda wave: sum(v.size_bytes for v in wave.plan.shared_variables)),
    "envreg1": _uniform(lambda wave: wave.plan.workspace >> 32),
    "envreg2": _uniform(lambda wave: wave.plan.workspace & 0xFFFFFFFF),
    "lanemask_eq": _lane_mask(lambda own: own),
    "lanemask_lt": _lane_mask(lambda own: own - 1),
    "lanemask_le": _lane_mask(lambda own: own | (own - 1)),
    "lanemask_gt": _lane_mask(lambda own: ~(own | (own - 1))),
    "lanemask_ge": _lane_mask(lambda own: ~(own - 1)),
}
