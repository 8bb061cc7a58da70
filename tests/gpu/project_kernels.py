"""Every kernel of the engine with the argument types that it is launched with."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Iterator

import numpy as np

import engine
from engine.compiler import types
from engine.compiler.kernel import Kernel
from engine.compiler.modules import MODULES


@functools.cache
def project_kernels() -> list[tuple[str, Kernel, tuple]]:
    """(name with its module, kernel, argument types), in the order of the names."""
    for module in pkgutil.walk_packages(engine.__path__, "engine."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    launch_generic_kernels()
    found = [
        (f"{name.removeprefix('engine.')}.{kernel.name}", kernel, types)
        for name, module in MODULES.items() if name.startswith("engine.")
        for kernel in module.kernels.values()
        for types in argument_types(kernel)
    ]  # fmt: skip
    return sorted(found, key=lambda row: (row[0], repr(row[2])))


def argument_types(kernel: Kernel) -> Iterator[tuple]:
    """Those that it was launched with; float32 in place of `Any` in a generic kernel that was not."""
    if kernel.is_generic and kernel.instances:
        yield from dict.fromkeys(key[0] for key in kernel.instances)
    else:
        yield tuple(concrete(t) for _, t in kernel.params)


def concrete(t: types.Type) -> types.Type:
    if types.is_concrete(t):
        return t
    return types.Array(types.float32, t.ndim, t.layout) if isinstance(t, types.Array) else types.float32


def launch_generic_kernels() -> None:
    """Their types come from the arguments."""
    with engine.config.scope(device="cpu"):
        numbers = engine.array(np.arange(16.0, dtype=np.float32))
        counts, found = engine.zeros(16, dtype=int), engine.zeros(1, dtype=int)
        engine.utils.array_scan(engine.ones(5000, dtype=float), engine.zeros(5000, dtype=float))
        engine.utils.array_sum(numbers)
        engine.utils.array_inner(numbers, numbers)
        keys = engine.array(np.arange(32, dtype=np.int32))
        engine.utils.radix_sort_pairs(keys, engine.array(np.arange(32, dtype=np.int32)), 16)
        engine.utils.radix_sort_keys(keys)
        engine.utils.segmented_sort_pairs(keys, engine.zeros(32, dtype=int), 16, engine.array([0, 16]))
        engine.utils.segmented_reduce(numbers, engine.array([0, 16]))
        engine.utils.histogram(numbers, counts, 0.0, 1.0)
        engine.utils.runlength_encode(counts, engine.zeros(16, dtype=int), engine.zeros(16, dtype=int), found)
        engine.HashGrid(2, 2, 2).build(engine.zeros(4, dtype=engine.vec3), 1.0)
        with engine.ScopedCapture():  # copies and fills with gaps are kernels there
            for ndim in range(1, 5):
                box = engine.zeros((4,) * ndim)
                engine.copy(box[(slice(0, 4, 2),) * ndim], box[(slice(1, 4, 2),) * ndim])
            numbers[::2].fill_(1.0)
        for optimizer in (engine.optim.Adam([numbers]), engine.optim.SGD([numbers])):
            optimizer.step([engine.ones(16, dtype=float)])
