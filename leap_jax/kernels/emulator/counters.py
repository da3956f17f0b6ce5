"""What a launch did, in totals: the raw material of a timing model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class LaunchCounters:
    """Totals of one launch. Lane counts are per thread; warp counts are per warp that issued."""

    lane_instructions: int = 0
    warp_instructions: int = 0
    global_bytes_read: int = 0
    global_bytes_written: int = 0
    shared_accesses: int = 0  # lane accesses
    atomics: int = 0  # lane operations
    barriers: int = 0  # block barriers completed
    blocks: int = 0
    threads: int = 0
