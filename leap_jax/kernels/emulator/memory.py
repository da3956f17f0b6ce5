"""Where data lives: tagged virtual addresses, allocations with red zones, and a device's global memory.

A generic address is 64 bits. Global, const and param allocations each own a slot of 2**40 addresses and begin in the
middle of it; shared and local variables each own a slot of 2**20 addresses in the 32-bit window of their space, which
generic addressing reaches through a tag in the top bits. A small overrun therefore never lands in another allocation,
and the slot says whose overrun it was.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

GLOBAL_SLOT_BITS = 40
WINDOW_SLOT_BITS = 20
TAG_BITS = 60
SPACE_TAGS = {"global": 0, "shared": 1, "local": 2}
FUNCTION_TAG = 3  # addresses of functions: no data there
WINDOW_MASK = (1 << 32) - 1
ROW_ALIGNMENT = 16  # bytes; the widest access
DEFINED = 0xFF  # the flag of a byte that was stored

UNSIGNED = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}


@dataclass(frozen=True, slots=True)
class Pointer:
    """A virtual address, as passed to a kernel."""

    address: int


class Allocation:
    """One variable or buffer: `rows` copies of `size` bytes, one per block (shared), per lane (local) or one in all.

    data: all rows, flat bytes. flags: 0xff for each byte that was stored, or None if all are defined.
    base: the address of byte 0 in its own space; generic: the same address in the generic space.
    row_of_lane: (lanes,) the row of each lane, or None if there is one row.
    """

    __slots__ = (
        "_rows",
        "_views",
        "base",
        "data",
        "element_bytes",
        "flags",
        "generic",
        "in_flight",
        "modified",
        "name",
        "row_of_lane",
        "shadow",
        "size",
        "space",
        "stride",
        "writable",
    )

    def __init__(
        self,
        name: str,
        space: str,
        slot: int,
        size: int,
        element_bytes: int = 1,
        *,
        writable: bool = True,
        defined: bool = False,
        rows: int = 1,
        row_of_lane: np.ndarray | None = None,
    ):
        self.name, self.space, self.size, self.element_bytes = name, space, size, element_bytes
        self.base = slot_base(space, slot)
        self.generic = self.base | (SPACE_TAGS[space] << TAG_BITS)
        self.writable, self.modified = writable, False
        self.stride = -(-max(size, 1) // ROW_ALIGNMENT) * ROW_ALIGNMENT
        self.data = np.zeros(rows * self.stride, np.uint8)
        self.flags = None if defined else np.zeros(rows * self.stride, np.uint8)
        if not defined:
            self.flags.reshape(rows, self.stride)[:, size:] = DEFINED
        self.row_of_lane = row_of_lane if rows > 1 else None
        self.shadow = None  # set by checks on the first tracked access
        self.in_flight = None  # set by copies while cp.async may not have arrived here
        self._views: dict[tuple, np.ndarray] = {}
        self._rows: dict[int, np.ndarray] = {}

    def view(self, width: int, count: int = 1) -> np.ndarray:
        """The data as (elements,) of `width` bytes, or (elements, count) for a vector access."""
        view = self._views.get((width, count))
        if view is None:
            view = self._views[width, count] = _typed(self.data, width, count)
        return view

    def flag_view(self, width: int, count: int = 1) -> np.ndarray:
        """The flags in the shape of `view`."""
        return _typed(self.flags, width, count)

    def settle(self) -> None:
        """Drops the flags once every byte is defined."""
        if self.flags is not None and self.flags.min() == DEFINED:
            self.flags = None

    def rows(self, width: int) -> np.ndarray | None:
        """(lanes,) the index of the first element of `width` bytes of each lane's row; None if there is one row."""
        if self.row_of_lane is None:
            return None
        rows = self._rows.get(width)
        if rows is None:
            rows = self._rows[width] = self.row_of_lane * (self.stride // width)
        return rows

    def describe(self, offset: int) -> str:
        """`element 1024 of x[1024]`, `byte 64 of shared array tile[64 bytes]`."""
        if self.space == "global" and self.element_bytes > 1:
            place = f"element {offset // self.element_bytes} of {self.name}[{self.size // self.element_bytes}]"
            return f"byte {offset % self.element_bytes} in {place}" if offset % self.element_bytes else place
        kind = "" if self.space == "global" else f"{self.space} array "
        return f"byte {offset} of {kind}{self.name}[{self.size} bytes]"


def all_defined(width: int) -> int:
    """The flags of `width` bytes that were all stored, as one integer."""
    return (1 << 8 * width) - 1


def slot_base(space: str, slot: int) -> int:
    """The address, in its own space, of byte 0 of the allocation that owns the slot."""
    bits = GLOBAL_SLOT_BITS if space == "global" else WINDOW_SLOT_BITS
    return (slot << bits) + (1 << (bits - 1))


def source_name(symbol: str) -> str:
    """The C++ name of a mangled block-scope variable: `_ZZ6kernelPfE4tile` -> `tile`; others unchanged."""
    match = re.fullmatch(r"_ZZ.*?E(\d+)([A-Za-z_]\w*?)(_\d+)?", symbol)
    if match and len(match[2]) == int(match[1]):
        return match[2]
    if symbol.startswith("__local_depot"):
        return "(stack frame)"
    return symbol


def function_address(number: int) -> int:
    """The address of a module's function."""
    return (FUNCTION_TAG << TAG_BITS) + (number + 1) * ROW_ALIGNMENT


class Space:
    """The allocations of one address space, by slot."""

    def __init__(self, name: str):
        self.name = name
        self.slots: dict[int, Allocation] = {}
        self._slot_bits = GLOBAL_SLOT_BITS if name == "global" else WINDOW_SLOT_BITS
        self._next_slot = 1

    def allocate(self, name: str, size: int, element_bytes: int = 1, **options) -> Allocation:
        """A new allocation in the next slot; `options` as for Allocation."""
        allocation = Allocation(name, self.name, self._next_slot, size, element_bytes, **options)
        self.slots[self._next_slot] = allocation
        self._next_slot += 1
        return allocation

    def find(self, address: int) -> Allocation | None:
        """The owner of the slot that an address of this space lies in."""
        return self.slots.get(address >> self._slot_bits)


@dataclass
class GlobalMemory:
    """A device's global memory for one sequence of launches: buffers, and the modules' own variables."""

    space: Space = field(default_factory=lambda: Space("global"))
    modules: dict[object, dict[str, int]] = field(default_factory=dict)  # program -> variable -> address
    _dtypes: dict[int, np.dtype] = field(default_factory=dict)  # address of a buffer -> its dtype

    def allocate(self, name: str, array_dtype: np.dtype, count: int, writable: bool) -> Pointer:
        """An undefined buffer of `count` elements. Stores to one that is not writable happen and are recorded."""
        width = np.dtype(array_dtype).itemsize
        address = self.space.allocate(name, count * width, width, writable=writable).generic
        self._dtypes[address] = np.dtype(array_dtype)
        return Pointer(address)

    def write(self, pointer: Pointer, array: np.ndarray) -> None:
        """Sets a whole buffer, which is defined from now on. Raises ValueError if the sizes differ."""
        allocation = self._buffer(pointer)
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        if raw.size != allocation.size:
            raise ValueError(f"{allocation.name} holds {allocation.size} bytes, got {raw.size}")
        allocation.data[: raw.size] = raw
        allocation.flags = None

    def fill(self, pointer: Pointer, pattern_bits: int) -> None:
        """Sets every element to the low bits of a pattern and leaves the buffer undefined."""
        allocation = self._buffer(pointer)
        width = allocation.element_bytes
        allocation.view(width)[:] = pattern_bits & ((1 << 8 * width) - 1)

    def read(self, pointer: Pointer) -> np.ndarray:
        """(count,) a copy of the elements, in the buffer's dtype."""
        allocation = self._buffer(pointer)
        return allocation.data[: allocation.size].view(self._dtypes[pointer.address]).copy()

    def defined(self, pointer: Pointer) -> np.ndarray:
        """(count,) whether every byte of the element was stored."""
        allocation = self._buffer(pointer)
        count = allocation.size // allocation.element_bytes
        if allocation.flags is None:
            return np.ones(count, bool)
        return (allocation.flags[: allocation.size].reshape(count, allocation.element_bytes) == DEFINED).all(axis=1)

    def modified(self, pointer: Pointer) -> bool:
        """Whether a kernel stored to the buffer."""
        return self._buffer(pointer).modified

    def _buffer(self, pointer: Pointer) -> Allocation:
        allocation = self.space.find(pointer.address)
        if allocation is None:
            raise KeyError(f"no buffer at address {pointer.address:#x}")
        return allocation


def _typed(raw: np.ndarray, width: int, count: int) -> np.ndarray:
    typed = raw.view(UNSIGNED[width])
    return typed if count == 1 else typed.reshape(-1, count)
