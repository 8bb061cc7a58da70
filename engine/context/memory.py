"""Host memory: aligned blocks, and NumPy windows onto any address that some object keeps alive."""

from __future__ import annotations

from typing import Any

import numpy as np

ALIGNMENT = 64  # a cache line, and the widest vector register
MOST = 2**62  # bytes that a size may have


class Block:
    """Some bytes at a fixed address, alive as long as this object; `owner` is what really holds them.

    `kept` are objects whose addresses are stored in the bytes (arrays in structs), so that these live as long.
    `shadow` is what `gradients` knows of the block: where its gradients lie, who wrote it, which tapes watch it.
    """

    __slots__ = ("__weakref__", "kept", "nbytes", "owner", "ptr", "shadow")

    def __init__(self, ptr: int, nbytes: int, owner: Any):
        self.ptr, self.nbytes, self.owner = ptr, nbytes, owner
        self.kept: Any = None
        self.shadow: Any = None


def host_block(nbytes: int, zeroed: bool) -> Block:
    """`nbytes` of host memory on a 64-byte border; zeroed pages come from the system, so that they cost nothing yet."""
    make = np.zeros if zeroed else np.empty
    if nbytes > MOST:  # NumPy, too, calls a size that it may still try a MemoryError
        raise MemoryError(f"Unable to allocate {nbytes / 2**60:.3g} EiB for an array")
    raw = make(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return Block(raw.ctypes.data + start, nbytes, raw)


class _Window:
    """What NumPy reads to make an array over foreign memory; it keeps this object, and thereby the memory, alive."""

    __slots__ = ("__array_interface__", "block")

    def __init__(self, block: Block, interface: dict[str, Any]):
        self.block, self.__array_interface__ = block, interface


def host_window(
    block: Block, ptr: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype
) -> np.ndarray:
    """A writable NumPy array over `block` from address `ptr` on; no copy."""
    if 0 in shape:
        return np.empty(shape, dtype)
    typestr = f"|V{dtype.itemsize}" if dtype.names is not None else dtype.str
    interface = {"version": 3, "data": (ptr, False), "shape": shape, "strides": strides, "typestr": typestr}
    window = np.asarray(_Window(block, interface))
    return window.view(dtype) if dtype.names is not None else window


def strided(data: np.ndarray, start: int, shape: tuple[int, ...], strides: tuple[int, ...],
            dtype: np.dtype) -> np.ndarray:  # fmt: skip
    """Elements in an array of bytes, the first of them at byte `start`; no copy."""
    return np.ndarray(shape, dtype, data, start, strides)
