"""Memory that other code owns: objects that describe their memory, and what is called when it is no longer used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from engine.context import dlpack


class Deleter:
    """Calls `function(ptr, nbytes)` when the last array over the memory is gone."""

    __slots__ = ("function", "nbytes", "ptr")

    def __init__(self, function: Callable[[int, int], None], ptr: int, nbytes: int):
        self.function, self.ptr, self.nbytes = function, ptr, nbytes

    def __del__(self) -> None:
        self.function(self.ptr, self.nbytes)


def as_numpy(data: Any) -> Any:
    """`data` as a NumPy array over the same memory, when it describes its memory; else as it is.

    Understood are `__array_interface__` and, for memory that the host can read, `__dlpack__`.
    """
    if isinstance(data, np.ndarray | list | tuple | int | float | np.generic) or hasattr(data, "ir_type"):
        return data
    if hasattr(data, "__array_interface__"):
        return np.asarray(data)
    if hasattr(data, "__dlpack__"):
        return dlpack.memory_of(data)[0]
    return data
