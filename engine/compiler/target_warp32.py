"""PTX text to code of this machine's CPU that runs it a warp at a time: the steps in order, and their cache.

parse (ptx_parser) → flow (ptx_flow) → LLVM text (emit_warp32) → object code → address
"""

from __future__ import annotations

import functools
import threading
import time
from dataclasses import dataclass, field

from engine.compiler.cache import KernelCache, digest
from engine.compiler.emit_warp32 import WarpCode, emit_warp, lay_out
from engine.compiler.emit_warp32_runtime import runtime
from engine.compiler.ptx_parser import Module, Variable, parse
from engine.compiler.target_host import host_target

RED_ZONE = 256  # bytes between the variables of a module
_lock = threading.Lock()


@dataclass
class Translation:
    """A PTX module and the LLVM text of each of its kernels; `times` are seconds by stage."""

    text: str
    module: Module
    kernels: dict[str, WarpCode]
    variables: list[Variable]
    offsets: dict[str, int]  # of the variables, in the module's block of memory
    size: int  # of that block
    times: dict[str, float] = field(default_factory=dict)


def translate(ptx: str) -> Translation:
    """All kernels of a PTX module as LLVM text. Raises `PtxError` for whatever cannot be executed."""
    start = time.perf_counter()
    module = parse(ptx)
    parsed = time.perf_counter()
    variables = [v for v in module.variables.values() if v.space in ("global", "const")]
    offsets, size = lay_out([_aligned(v) for v in variables], RED_ZONE)
    kernels = {name: emit_warp(module, entry, offsets) for name, entry in module.functions.items() if entry.is_kernel}
    times = {"parse": parsed - start, "translate": time.perf_counter() - parsed}
    return Translation(ptx, module, kernels, variables, offsets, size, times)


def _aligned(v: Variable) -> Variable:
    return Variable(v.name, v.space, max(v.align, 256), v.size, v.initial, v.symbols)


def link_warp(code: WarpCode) -> int:
    """The address of a kernel's code, compiled now or taken from the cache folder."""
    target = host_target()
    addresses = runtime_addresses()
    cache, key = KernelCache(), digest("warp", code.text, target.key)
    entry = cache.get(key)
    if entry is None:
        # the time of a launch is that of the runtime's functions, so that better code for the rest would not pay
        image = target.emit(code.text, 0, as_written=True)
        cache.put(key, {}, image)
    else:
        image = entry[1]
    imports = {name: addresses[name] for name in sorted(code.calls)}
    return target.link(image, code.name, imports=imports)[0]


@functools.cache
def runtime_addresses() -> dict[str, int]:
    """Name → address of the functions that all kernels share."""
    target = host_target()
    text, names = runtime()
    cache, key = KernelCache(), digest("warp runtime", text, target.key)
    entry = cache.get(key)
    if entry is None:
        image = target.emit(text, 1, as_written=True)
        cache.put(key, {}, image)
    else:
        image = entry[1]
    with _lock:
        return dict(zip(names, target.link(image, *names), strict=True))
