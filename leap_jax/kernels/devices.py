"""What is publicly known of the GPUs an answer may be judged for, and how many blocks of a kernel they hold.

Facts: compute capabilities table of the CUDA programming guide, and NVIDIA's architecture papers (SXM boards).
"""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1 << 10
WARP_THREADS = 32
PARTITIONS = 4  # of a multiprocessor, each with its share of registers and warps


@dataclass(frozen=True)
class Device:
    """One GPU; the limits are the same for compute capabilities 8.0 and 9.0 but for shared memory."""

    name: str
    architecture: str
    multiprocessors: int
    shared_per_multiprocessor: int
    shared_per_block: int  # with opt-in; 48 KiB without
    shared_reserved: int = KIB  # by the system, of each block
    shared_unit: int = 128
    warps_per_multiprocessor: int = 64
    blocks_per_multiprocessor: int = 32
    threads_per_block: int = 1024
    registers_per_multiprocessor: int = 64 * KIB
    registers_per_thread: int = 255
    register_unit: int = 256  # a warp's registers are given out in these


DEVICES = {
    "a100": Device("A100", "sm_80", 108, shared_per_multiprocessor=164 * KIB, shared_per_block=163 * KIB),
    "h100": Device("H100", "sm_90", 132, shared_per_multiprocessor=228 * KIB, shared_per_block=227 * KIB),
    "h200": Device("H200", "sm_90", 132, shared_per_multiprocessor=228 * KIB, shared_per_block=227 * KIB),
}


@dataclass(frozen=True)
class Occupancy:
    """How full a kernel can make a multiprocessor. limiter: what keeps the next block out, or any (blocks 0)."""

    blocks: int  # per multiprocessor
    warps: int  # per multiprocessor
    share: float  # of the warps it can hold
    limiter: str  # warps, blocks, registers or shared memory; the first in this order of those that bind


def occupancy(device: Device, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Occupancy by blocks of so many threads, registers per thread and bytes of static and dynamic shared memory."""
    warps = max(1, _round_up(threads, WARP_THREADS) // WARP_THREADS)
    limits = {
        "warps": device.warps_per_multiprocessor // warps if threads <= device.threads_per_block else 0,
        "blocks": device.blocks_per_multiprocessor,
        "registers": _register_limit(device, warps, registers),
        "shared memory": _shared_limit(device, shared_bytes),
    }
    limiter = min(limits, key=limits.__getitem__)
    blocks = limits[limiter]
    return Occupancy(blocks, blocks * warps, blocks * warps / device.warps_per_multiprocessor, limiter)


def _register_limit(device: Device, warps: int, registers: int) -> int:
    """Blocks by registers: whole warps are placed in partitions that share nothing."""
    if registers > device.registers_per_thread:
        return 0
    per_warp = _round_up(max(1, registers) * WARP_THREADS, device.register_unit)
    per_partition = device.registers_per_multiprocessor // PARTITIONS // per_warp
    return per_partition * PARTITIONS // warps


def _shared_limit(device: Device, shared_bytes: int) -> int:
    if shared_bytes > device.shared_per_block:
        return 0
    return device.shared_per_multiprocessor // _round_up(shared_bytes + device.shared_reserved, device.shared_unit)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
