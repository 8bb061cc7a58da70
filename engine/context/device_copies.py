"""Copies and fills of arrays on GPUs without the host: by the driver where they are one run of bytes, else by a kernel.

Between two GPUs of one driver, the target's stream waits for the source's, copies, and the source's stream waits for
the copy. Arrays with gaps are made dense on their GPU first and spread on the other. Where one GPU cannot reach the
memory of the other, and between a GPU and anything else, values go through the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.context import gradients
from engine.context.array import array
from engine.context.graph_copies import Words, copy_launch, one_run
from engine.context.launch import launch_unseen
from engine.context.memory import Block
from engine.errors import CaptureError

BLOCK = 256  # threads


def write(device: Any, target: array, values: Any) -> bool:
    """`target[...] = values` on `device`, the target's; False where this has to go through the host."""
    view = target.places()
    if not view.size:
        return False
    if not isinstance(values, array):
        return isinstance(values, np.ndarray) and _fill(device, target, view, values)
    if values.element != target.element or not _fits(values.places().shape, view.shape):
        return False
    if values.device is device:
        return _within(device, target, view, values)
    if getattr(values.device, "driver", None) is device.driver and device.reaches(values.device):
        return _between(device, target, view, values)
    return False


def _fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether elements of this shape are broadcast to the wanted one."""
    try:
        return np.broadcast_shapes(shape, wanted) == wanted
    except ValueError:
        return False


def _planned(device: Any, view: np.ndarray, target: array, values: np.ndarray, block: Block,
             host: np.ndarray | None) -> tuple[Any, Words | None]:  # fmt: skip
    """The launch that does it, None where it has too many gaps; and what it does where that is one run of bytes."""
    try:
        launch = copy_launch(view, target.block, np.broadcast_to(values, view.shape), block, device)
    except CaptureError:
        return None, None
    return launch, one_run(*launch, host)


def _fill(device: Any, target: array, view: np.ndarray, values: np.ndarray) -> bool:
    if not _fits(values.shape, view.shape):
        return False
    _, words = _planned(device, view, target, values, Block(values.ctypes.data, values.nbytes, values), values)
    if words is None or words.source:
        return False
    device.fill(words)
    return True


def _within(device: Any, target: array, view: np.ndarray, source: array) -> bool:
    if gradients.overlap(target, source):
        between = array.allocate(source.dtype, source.shape, "aos", device, zeroed=False)
        return write(device, between, source) and write(device, target, between)
    launch, words = _planned(device, view, target, source.places(), source.block, None)
    if launch is None:
        return False
    if words is not None:
        device.copy(words)
    else:
        kernel, dim, args = launch
        launch_unseen(kernel, dim, args, device, BLOCK)
    return True


def _between(device: Any, target: array, view: np.ndarray, source: array) -> bool:
    _, words = _planned(device, view, target, source.places(), source.block, None)
    if words is not None:
        device.copy_from(source.device, words)
        return True
    sent, got = (array.allocate(source.dtype, source.shape, "aos", home, zeroed=False)
                 for home in (source.device, device))  # fmt: skip
    return write(source.device, sent, source) and write(device, got, sent) and write(device, target, got)
