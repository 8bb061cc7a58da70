"""Copies and fills as launches, so that a graph holds them beside kernels: words of 1, 2, 4 or 8 bytes, strided.

A copy between two NumPy views of equal shape is reduced to the fewest dimensions: neighbouring dimensions that lie
without a gap in both become one. A value that is repeated is a source with strides of 0.

    (1000, 3) float32, strides (12, 4) ← (1000, 3), strides (12, 4)    3000 words of 4 bytes
    (1000, 3) float32, strides (12, 4) ← (3,), repeated                (1000, 3) words, source strides (0, 4)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from engine.compiler import lang as k
from engine.compiler import types
from engine.context.array import array
from engine.context.memory import Block
from engine.errors import CaptureError

MAX_RANK = 4
_WORDS: dict[int, Any] = {1: k.uint8, 2: k.uint16, 4: k.uint32, 8: k.uint64}


@k.requires(lambda tid, dst, src: tid < src.shape[0] and tid < dst.shape[0])
@k.kernel
def copy_line(dst: k.array(dtype=Any), src: k.array(dtype=Any)):
    i = k.tid()
    dst[i] = src[i]


@k.requires(lambda tid, dst, src: tid[1] < src.shape[1] and tid[0] < src.shape[0] and tid[1] < dst.shape[1]
    and tid[0] < dst.shape[0])  # fmt: skip
@k.kernel
def copy_plane(dst: k.array(dtype=Any, ndim=2), src: k.array(dtype=Any, ndim=2)):
    i, j = k.tid()
    dst[i, j] = src[i, j]


@k.requires(lambda tid, dst, src: tid[2] < src.shape[2] and tid[1] < src.shape[1] and tid[0] < src.shape[0]
    and tid[2] < dst.shape[2] and tid[1] < dst.shape[1] and tid[0] < dst.shape[0])  # fmt: skip
@k.kernel
def copy_volume(dst: k.array(dtype=Any, ndim=3), src: k.array(dtype=Any, ndim=3)):
    i, j, m = k.tid()
    dst[i, j, m] = src[i, j, m]


@k.requires(lambda tid, dst, src: tid[3] < src.shape[3] and tid[2] < src.shape[2] and tid[1] < src.shape[1]
    and tid[0] < src.shape[0] and tid[3] < dst.shape[3] and tid[2] < dst.shape[2] and tid[1] < dst.shape[1]
    and tid[0] < dst.shape[0])  # fmt: skip
@k.kernel
def copy_hypervolume(dst: k.array(dtype=Any, ndim=4), src: k.array(dtype=Any, ndim=4)):
    i, j, m, n = k.tid()
    dst[i, j, m, n] = src[i, j, m, n]


@k.requires(lambda tid, dst, value: 1 <= value.shape[0] and tid < dst.shape[0])
@k.kernel
def fill_line(dst: k.array(dtype=Any), value: k.array(dtype=Any)):
    dst[k.tid()] = value[0]


_COPIES = (copy_line, copy_plane, copy_volume, copy_hypervolume)
Axes = list[tuple[int, int, int]]  # extent, stride in the target, stride in the source


def copy_launch(target: np.ndarray, target_block: Block, source: np.ndarray, source_block: Block,
                device: Any) -> tuple[Any, tuple[int, ...], list[array]]:  # fmt: skip
    """(kernel, dim, arguments) of the launch that does `target[...] = source`, bit by bit.

    The views have equal shapes and items of equal size; the blocks are the memory that they lie in.
    """
    axes: Axes = list(zip(target.shape, target.strides, source.strides, strict=True))
    size = target.dtype.itemsize
    word = gcd(size, 8, target.ctypes.data, source.ctypes.data, *(s for _, *strides in axes for s in strides))
    axes = joined([*axes, (size // word, word, word)])
    if len(axes) > MAX_RANK:
        raise CaptureError("copy", f"the gaps in memory leave {len(axes)} dimensions, more than {MAX_RANK}")
    shape = tuple(extent for extent, _, _ in axes)
    dst = _words(word, shape, tuple(t for _, t, _ in axes), target.ctypes.data, target_block, device)
    if len(axes) == 1 and axes[0][2] == 0:
        return fill_line, shape, [dst, _words(word, (1,), (word,), source.ctypes.data, source_block, device)]
    src = _words(word, shape, tuple(s for _, _, s in axes), source.ctypes.data, source_block, device)
    return _COPIES[len(axes) - 1], shape, [dst, src]


@dataclass(frozen=True)
class Words:
    """A copy of `count` words of `size` bytes without gaps; or a fill with `value`, where there is no source."""

    target: int  # address
    source: int
    size: int
    count: int
    value: int = 0


def one_run(kernel: Any, dim: tuple[int, ...], args: list[array], host: np.ndarray | None) -> Words | None:
    """What a launch of `copy_launch` does, where it is one run of bytes; `host` are the values that it fills with."""
    target, source = args
    size = types.leaves(target.element)[0][1].size
    if len(dim) != 1 or not dim[0] or size != target.strides[0]:
        return None
    if kernel is copy_line and (host is None or dim[0] > 1):
        return Words(target.ptr, source.ptr, size, dim[0]) if source.strides[0] == size else None
    if host is None or not host.size:
        return None  # the value is read at each replay
    value = int.from_bytes(np.ascontiguousarray(host).reshape(-1).view(np.uint8)[:size].tobytes(), "little")
    if size == 8:  # the driver fills with at most 4 bytes
        low, high = value & 0xFFFFFFFF, value >> 32
        return Words(target.ptr, 0, 4, 2 * dim[0], low) if low == high else None
    return Words(target.ptr, 0, size, dim[0], value)


def joined(axes: Axes) -> Axes:
    """The same elements in the same order with as few dimensions as possible, at least one."""
    found: Axes = []
    for extent, target, source in axes:
        if extent == 1:
            continue
        if found and found[-1][1:] == (extent * target, extent * source):
            found[-1] = (found[-1][0] * extent, target, source)
        else:
            found.append((extent, target, source))
    return found or [(1, axes[-1][1], axes[-1][2])]


def _words(word: int, shape: tuple[int, ...], strides: tuple[int, ...], ptr: int, block: Block, device: Any) -> array:
    return array.over(_WORDS[word], "aos", shape, strides, ptr, 0, block, device)
