"""Where the gradients of arrays lie, and who wrote which memory since a tape began to watch.

The gradient of a block of memory is a second block of the same size: each array over the first has its gradient at the
same distance in the second, with the same strides. So all views of an array share one gradient, and a kernel that walks
an array walks its gradient with the same numbers.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.context.memory import Block

if TYPE_CHECKING:
    from engine.context.array import array

Place = tuple[int, tuple[int, ...], tuple[int, ...]]

# Set by `tape`: the keeper of all tapes while any of them lives, else None. What writes arrays asks here first.
watcher: Any = None
# Set by `backward`: the module that runs backward kernels, which launches and tapes share.
backward: Any = None


def recording() -> bool:
    """Whether a tape records what this process does now; others may live that are done with it."""
    return watcher is not None and watcher.is_recording()


class Shadow:
    """What is known of one block: `block` and `shift` lead to the gradient (its address minus the primal's)."""

    __slots__ = ("__weakref__", "block", "shift", "tapes", "writes")

    def __init__(self) -> None:
        self.block: Block | None = None
        self.shift = 0
        self.tapes: weakref.WeakSet[Any] = weakref.WeakSet()  # that read the block again on the way back
        self.writes: dict[Place, tuple[int, array]] = {}  # place → time of its last write


def shadow(a: array) -> Shadow:
    """The shadow of the array's block, made when first asked for."""
    found: Shadow | None = a.block.shadow
    if found is None:
        found = a.block.shadow = Shadow()
    return found


def ensure(a: array) -> array:
    """The gradient of `a`, zero where it is new."""
    known = shadow(a)
    if known.block is None:
        known.block = a.device.alloc(a.block.nbytes, True)
        known.shift = known.block.ptr - a.block.ptr
    return _over(a, known.block, known.shift)


def gradient(a: array) -> array | None:
    """The gradient of `a` if its memory has one."""
    known: Shadow | None = a.block.shadow
    return None if known is None or known.block is None else _over(a, known.block, known.shift)


def _over(a: array, block: Block, shift: int) -> array:
    return type(a).over(a.dtype, a.layout, a.shape, a.strides, a.ptr + shift, a.plane_stride, block, a.device)


def drop(a: array) -> None:
    """Forget the gradient of the whole block."""
    if a.block.shadow is not None:
        a.block.shadow.block = None


def adopt(a: array, value: array) -> None:
    """Make `value` the gradient of `a`: its memory where the two lie alike and `a` is all of its block, else a copy."""
    if value.shape != a.shape or value.element != a.element:
        raise TypeError(f"the gradient of {a!r} has its shape and element type, got {value!r}")
    if value.strides == a.strides and value.layout == a.layout != "planes" and a.nbytes >= a.block.nbytes:
        known = shadow(a)
        known.block, known.shift = value.block, value.ptr - a.ptr
    else:
        ensure(a).assign(value)


# writes


def is_watched(a: array) -> bool:
    """Whether a living tape will read the array's memory again."""
    return a.block.shadow is not None and bool(a.block.shadow.tapes)


def note_write(a: array, time: int) -> None:
    """Remember that `a` was written at `time`."""
    shadow(a).writes[a.ptr, a.shape, a.strides] = time, a


def written_since(a: array, time: int) -> bool:
    """Whether any byte of `a` was written after `time`."""
    known: Shadow | None = a.block.shadow
    return known is not None and any(when > time and overlap(a, other) for when, other in known.writes.values())


def overlap(a: array, b: array) -> bool:
    """Whether two arrays have memory in common."""
    if a.plane_stride or b.plane_stride:
        return a.block is b.block
    if not a.size or not b.size:
        return False
    x, y = a.places(), b.places()
    try:
        return np.may_share_memory(x, y) and np.shares_memory(x, y, max_work=10_000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def overwritten(a: array) -> None:
    """The host sets elements of `a` to values that depend on no array."""
    watcher.overwritten(a)


def assigned(a: array, value: Any) -> None:
    """The host sets `a` to `value`: another array (a copy has a gradient), or plain values."""
    watcher.assigned(a, value)
