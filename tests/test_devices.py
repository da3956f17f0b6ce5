"""Occupancy against the values of NVIDIA's cuda_occupancy.h (all of a 23,276-point grid agreed; a part is kept)."""

from __future__ import annotations

import pytest

from leap_jax.kernels.devices import DEVICES, KIB, Occupancy, occupancy


@pytest.mark.parametrize(
    ("device", "threads", "registers", "shared_bytes", "blocks", "limiter"),
    [
        ("h100", 256, 32, 0, 8, "warps"),
        ("a100", 160, 16, 0, 12, "warps"),
        ("h100", 768, 24, 40000, 2, "warps"),
        ("a100", 32, 32, 0, 32, "blocks"),
        ("h100", 1, 33, 100, 32, "blocks"),
        ("h100", 256, 64, 0, 4, "registers"),
        ("h100", 256, 65, 0, 3, "registers"),  # 72 by the unit of a warp
        ("h100", 448, 40, 4096, 3, "registers"),
        ("a100", 192, 33, 1024, 8, "registers"),
        ("h100", 128, 72, 10240, 7, "registers"),
        ("h100", 1, 100, 0, 16, "registers"),  # four in each partition, whose rest is lost
        ("h100", 288, 200, 0, 0, "registers"),  # nine warps take the registers of twelve
        ("h100", 896, 80, 98304, 0, "registers"),
        ("a100", 1000, 168, 20000, 0, "registers"),
        ("h100", 1024, 255, 0, 0, "registers"),
        ("a100", 320, 40, 98304, 1, "shared memory"),
        ("h100", 64, 56, 24576, 9, "shared memory"),
        ("h100", 256, 32, 227 * KIB, 1, "shared memory"),
        ("h100", 256, 32, 227 * KIB + 1, 0, "shared memory"),
        ("a100", 256, 32, 163 * KIB, 1, "shared memory"),
        ("a100", 256, 32, 163 * KIB + 1, 0, "shared memory"),
        ("h200", 256, 32, 113 * KIB, 2, "shared memory"),
        ("h200", 256, 32, 113 * KIB + 1, 1, "shared memory"),
        ("h100", 1025, 16, 0, 0, "warps"),
        ("h100", 32, 256, 0, 0, "registers"),
    ],
)
def test_blocks_per_multiprocessor(device, threads, registers, shared_bytes, blocks, limiter):
    found = occupancy(DEVICES[device], threads, registers, shared_bytes)
    assert (found.blocks, found.limiter) == (blocks, limiter)


def test_share_is_of_all_warps():
    assert occupancy(DEVICES["h100"], 256, 72, 0) == Occupancy(3, 24, 0.375, "registers")
    assert occupancy(DEVICES["h100"], 33, 1, 0).warps == 64  # two warps for 33 threads
