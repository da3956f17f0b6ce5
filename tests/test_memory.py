"""Global memory: layout, definedness, alignment of slots."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leap_jax.kernels.emulator.memory import (
    GLOBAL_SLOT_BITS,
    Allocation,
    GlobalMemory,
    Pointer,
    Space,
    slot_base,
    source_name,
)


def test_a_written_buffer_reads_back_in_its_dtype_and_is_defined():
    memory = GlobalMemory()
    values = np.array([1.5, -2.0, np.inf], np.float32)
    pointer = memory.allocate("x", values.dtype, values.size, writable=False)
    assert not memory.defined(pointer).any()
    memory.write(pointer, values)
    np.testing.assert_array_equal(memory.read(pointer), values)
    assert memory.read(pointer).dtype == np.float32
    assert memory.defined(pointer).all()
    assert not memory.modified(pointer)


def test_poison_fills_and_stays_undefined():
    memory = GlobalMemory()
    pointer = memory.allocate("y", np.dtype(np.float32), 5, writable=True)
    memory.fill(pointer, 0x7FC01234)
    assert (memory.read(pointer).view(np.uint32) == 0x7FC01234).all()
    assert not memory.defined(pointer).any()


def test_read_returns_a_copy():
    memory = GlobalMemory()
    pointer = memory.allocate("x", np.dtype(np.int32), 2, writable=True)
    memory.write(pointer, np.array([1, 2], np.int32))
    memory.read(pointer)[:] = 9
    assert memory.read(pointer).tolist() == [1, 2]


def test_write_of_another_size_is_refused():
    memory = GlobalMemory()
    pointer = memory.allocate("x", np.dtype(np.int32), 2, writable=True)
    with pytest.raises(ValueError, match="8 bytes, got 12"):
        memory.write(pointer, np.zeros(3, np.int32))


def test_an_empty_buffer_has_no_elements():
    memory = GlobalMemory()
    pointer = memory.allocate("x", np.dtype(np.float64), 0, writable=True)
    assert memory.read(pointer).size == memory.defined(pointer).size == 0


def test_an_unknown_pointer_is_refused():
    with pytest.raises(KeyError):
        GlobalMemory().read(Pointer(4096))


@settings(max_examples=50)
@given(st.lists(st.integers(0, 1 << 20), min_size=2, max_size=6), st.integers(-(1 << 38), 1 << 38), st.data())
def test_an_overrun_of_up_to_2_to_38_bytes_stays_with_its_buffer(sizes, overrun, data):
    space = Space("global")
    allocations = [space.allocate(f"b{i}", size) for i, size in enumerate(sizes)]
    chosen = data.draw(st.sampled_from(allocations))
    assert space.find(chosen.base + overrun) is chosen


def test_every_allocation_is_aligned_for_the_widest_access():
    assert all(slot_base(space, slot) % 256 == 0 for space in ("global", "shared", "local") for slot in range(1, 99))


def test_no_slot_holds_the_null_pointer():
    assert Space("global").find(0) is None
    assert Space("global").allocate("x", 4).base >> GLOBAL_SLOT_BITS == 1


def test_rows_of_a_shared_array_do_not_overlap():
    rows = np.repeat(np.arange(3), 2)
    allocation = Allocation("t", "shared", 1, 20, rows=3, row_of_lane=rows)
    view, starts = allocation.view(4), allocation.rows(4)
    for row, start in enumerate(starts[::2]):
        view[start : start + 5] = row
    assert [view[start : start + 5].tolist() for start in starts[::2]] == [[0] * 5, [1] * 5, [2] * 5]


def test_padding_does_not_keep_a_full_buffer_undefined():
    allocation = Allocation("t", "shared", 1, 20, rows=2, row_of_lane=np.arange(2))
    allocation.settle()
    assert allocation.flags is not None
    for start in allocation.rows(4):
        allocation.flag_view(4)[start : start + 5] = 0xFFFFFFFF
    allocation.settle()
    assert allocation.flags is None


@pytest.mark.parametrize(
    ("space", "element_bytes", "offset", "text"),
    [
        ("global", 4, 4096, "element 1024 of x[1024]"),
        ("global", 4, -4, "element -1 of x[1024]"),
        ("global", 4, 6, "byte 2 in element 1 of x[1024]"),
        ("shared", 1, 64, "byte 64 of shared array x[4096 bytes]"),
        ("local", 1, 64, "byte 64 of local array x[4096 bytes]"),
    ],
)
def test_description_of_a_place(space, element_bytes, offset, text):
    assert Allocation("x", space, 1, 4096, element_bytes).describe(offset) == text


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_ZZ3redE1s", "s"),
        ("_ZZ6kernelPKfPfE4tile", "tile"),
        ("_ZZ6kernelPKfPfE4tile_0", "tile"),
        ("dyn", "dyn"),
        ("_ZN3foo3barE", "_ZN3foo3barE"),
        ("__local_depot0", "(stack frame)"),
    ],
)
def test_source_names(symbol, name):
    assert source_name(symbol) == name
