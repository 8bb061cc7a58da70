"""Memory of the emulated GPU: allocations at fixed addresses, and the table that kernels' accesses are checked by.

Device addresses are addresses of this process, so that an access costs no translation. Between two allocations lies at
least one red zone of `RED_ZONE` bytes; new memory is filled with 0xCD, so that reading it before it is written shows.
"""

from __future__ import annotations

import bisect
import ctypes
from dataclasses import dataclass

import numpy as np

from engine.context.emulator.status import DriverFailure

ALIGNMENT = 256  # as of the real allocator
RED_ZONE = 256
POISON = 0xCD
QUARANTINE = 64 << 20  # bytes of freed memory that are kept back
NEAR = 1 << 20  # an address this close to an allocation was probably meant for it


@dataclass(eq=False)
class Allocation:
    """Some bytes of device memory; `kind` is "device", "pinned", "managed" or "variable"."""

    begin: int
    size: int
    kind: str
    holder: np.ndarray
    written: np.ndarray | None = None  # for each byte, whether somebody wrote it; kept while `Memory.tracks`

    @property
    def end(self) -> int:
        return self.begin + self.size


class Memory:
    """All allocations of one emulated GPU."""

    def __init__(self, total: int):
        self.total, self.used = total, 0
        self.tracks = False  # whether to keep account of what is written, in allocations from now on
        self._begins: list[int] = []
        self._allocations: list[Allocation] = []
        self._table: np.ndarray | None = None
        self._freed: list[Allocation] = []  # the last ones: their addresses are not used again, so that it shows

    def allocate(self, size: int, kind: str = "device", poison: bool = True) -> Allocation:
        """New memory, on a border of 256 bytes."""
        if size <= 0:
            raise DriverFailure("CUDA_ERROR_INVALID_VALUE", "an allocation needs at least one byte")
        if self.used + size > self.total:
            raise DriverFailure("CUDA_ERROR_OUT_OF_MEMORY", f"{size} bytes asked, {self.total - self.used} are free")
        try:
            holder = np.empty(size + ALIGNMENT + 2 * RED_ZONE, np.uint8)
        except MemoryError:
            raise DriverFailure("CUDA_ERROR_OUT_OF_MEMORY", f"the host has no {size} bytes") from None
        address = holder.ctypes.data
        begin = -(-(address + RED_ZONE) // ALIGNMENT) * ALIGNMENT
        if poison:
            ctypes.memset(begin, POISON, size)
        written = np.zeros(size, bool) if self.tracks and kind == "device" else None
        return self._insert(Allocation(begin, size, kind, holder, written))

    def place(self, offsets: dict[str, int], sizes: dict[str, int], total: int) -> tuple[int, dict[str, int]]:
        """Variables of a module at their offsets in one block: the block's address, and that of each."""
        if self.used + total > self.total:
            raise DriverFailure("CUDA_ERROR_OUT_OF_MEMORY", f"the module's variables take {total} bytes")
        holder = np.empty(total + ALIGNMENT + 2 * RED_ZONE, np.uint8)
        base = -(-(holder.ctypes.data + RED_ZONE) // ALIGNMENT) * ALIGNMENT
        places = {name: base + offset for name, offset in offsets.items()}
        for name, address in places.items():
            self._insert(Allocation(address, sizes[name], "variable", holder))
        return base, places

    def _insert(self, made: Allocation) -> Allocation:
        place = bisect.bisect(self._begins, made.begin)
        self._begins.insert(place, made.begin)
        self._allocations.insert(place, made)
        self.used += made.size
        self._table = None
        return made

    def free(self, address: int, kinds: tuple[str, ...]) -> None:
        """Give back the allocation that begins at `address`."""
        place = bisect.bisect_left(self._begins, address)
        if place == len(self._begins) or self._begins[place] != address or self._allocations[place].kind not in kinds:
            raise DriverFailure("CUDA_ERROR_INVALID_VALUE", f"no allocation begins at {address:#x}")
        gone = self._allocations.pop(place)
        self._begins.pop(place)
        self.used -= gone.size
        self._table = None
        self._freed.append(gone)
        while len(self._freed) > 64 or sum(a.size for a in self._freed) > QUARANTINE and len(self._freed) > 1:
            del self._freed[0]

    def find(self, address: int) -> Allocation | None:
        """The allocation that holds the byte at `address`."""
        place = bisect.bisect(self._begins, address) - 1
        if place >= 0 and address < self._allocations[place].end:
            return self._allocations[place]
        return None

    def marks(self) -> list[np.ndarray | None]:
        """For each allocation, which of its bytes are written; None where all of them are known to be."""
        for allocation in self._allocations:
            if allocation.written is not None and allocation.written.all():
                allocation.written = None
        return [allocation.written for allocation in self._allocations]

    def wrote(self, address: int, size: int) -> None:
        """The host, or the driver, has written some bytes of an allocation."""
        found = self.find(address)
        if found is not None and found.written is not None:
            found.written[address - found.begin : address - found.begin + size] = True

    def snapshot(self) -> list[tuple[Allocation, bytes]]:
        """What all memory holds now."""
        return [(allocation, ctypes.string_at(allocation.begin, allocation.size)) for allocation in self._allocations]

    def restore(self, kept: list[tuple[Allocation, bytes]]) -> None:
        """All memory that is still there holds again what it held."""
        here = set(map(id, self._allocations))
        for allocation, data in kept:
            if id(allocation) in here:
                ctypes.memmove(allocation.begin, data, allocation.size)

    def require(self, address: int, size: int) -> None:
        """Raises the driver's failure unless all bytes lie in one allocation."""
        found = self.find(address)
        if size and (found is None or address + size > found.end):
            raise DriverFailure("CUDA_ERROR_INVALID_VALUE", self.describe(address, size))

    def describe(self, address: int, size: int) -> str:
        """Where `size` bytes at a bad address lie, in words."""
        for gone in self._freed:
            if gone.begin <= address < gone.end:
                return f"byte {address - gone.begin} of an allocation of {gone.size} bytes that was freed"
        place = bisect.bisect(self._begins, address) - 1
        near: list[tuple[int, str]] = []
        if place >= 0:
            before = self._allocations[place]
            if address < before.end:
                past = address + size - before.end
                return f"the last {past} of {size} bytes lie behind an allocation of {before.size} bytes"
            gap = address - before.end
            near.append((gap, f"{gap} bytes behind an allocation of {before.size} bytes"))
        if place + 1 < len(self._begins):
            after = self._allocations[place + 1]
            gap = after.begin - address
            near.append((gap, f"{gap} bytes before an allocation of {after.size} bytes"))
        if near and min(near)[0] < NEAR:
            return min(near)[1]
        return f"address {address:#x} is not in any allocation"

    def table(self) -> np.ndarray:
        """(n, 2) first byte and end of every allocation, ascending."""
        if self._table is None:
            self._table = np.array([(a.begin, a.end) for a in self._allocations] or [(0, 0)], np.uint64)
        return self._table
