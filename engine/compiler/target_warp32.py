"""PTX text to code of this machine's CPU that runs it a warp at a time: the steps in order, and their cache.

parse (ptx_parser) → flow (ptx_flow) → words (emit_warp32), and for each new form of instruction
LLVM text (emit_warp32_handler) → object code → address
"""

from __future__ import annotations

import functools
import gc
import threading
import time
from array import array
from dataclasses import dataclass, field

from engine.compiler.cache import KernelCache, digest
from engine.compiler.emit_warp32 import Key, WarpCode, emit_warp, lay_out, operation_of
from engine.compiler.emit_warp32_handler import Operation
from engine.compiler.emit_warp32_runtime import runtime
from engine.compiler.emit_warp32_schedules import PICKS
from engine.compiler.ptx_parser import Module, Variable, parse
from engine.compiler.target_host import host_target

RED_ZONE = 256  # bytes between the variables of a module
_lock = threading.Lock()
_handlers: dict[Key, int] = {}  # form of instruction → address


@dataclass
class Translation:
    """A PTX module and the code of each of its kernels; `times` are seconds by stage."""

    text: str
    module: Module
    kernels: dict[str, WarpCode]
    variables: list[Variable]
    offsets: dict[str, int]  # of the variables, in the module's block of memory
    size: int  # of that block
    times: dict[str, float] = field(default_factory=dict)


@dataclass
class LinkedCode:
    """A kernel in memory: its words, with addresses, and what a launch's context says of it."""

    words: array[int]
    blocks: array[int]  # by place: the address of a block's first word
    pick: int  # the function that chooses the block to run next

    @property
    def table(self) -> int:
        """The address of `blocks`."""
        return self.blocks.buffer_info()[0]


def translate(ptx: str) -> Translation:
    """All kernels of a PTX module as words. Raises `PtxError` for whatever cannot be executed."""
    start = time.perf_counter()
    collects = gc.isenabled()
    gc.disable()  # there is no garbage, and looking for it among so many objects takes a third of the time
    try:
        module = parse(ptx)
        parsed = time.perf_counter()
        variables = [v for v in module.variables.values() if v.space in ("global", "const")]
        offsets, size = lay_out([_aligned(v) for v in variables], RED_ZONE)
        kernels = {name: emit_warp(module, one, offsets) for name, one in module.functions.items() if one.is_kernel}
    finally:
        if collects:
            gc.enable()
    times = {"parse": parsed - start, "translate": time.perf_counter() - parsed}
    return Translation(ptx, module, kernels, variables, offsets, size, times)


def _aligned(v: Variable) -> Variable:
    return Variable(v.name, v.space, max(v.align, 256), v.size, v.initial, v.symbols)


def link_warp(code: WarpCode) -> LinkedCode:
    """A kernel's code, ready to run; what handlers are missing is compiled now or taken from the cache folder."""
    known = runtime_addresses()
    with _lock:
        _compile([key for key in code.keys if not isinstance(key, str) and key not in _handlers])
        addresses = [known[key] if isinstance(key, str) else _handlers[key] for key in code.keys]
    words = array("q", code.words)
    for place in code.handlers:
        words[place] = addresses[words[place]]
    base = words.buffer_info()[0]
    for place in code.targets:
        words[place] += base
    return LinkedCode(words, array("q", [base + 8 * word for word in code.blocks]), known[PICKS[code.schedule]])


def _compile(keys: list[Key]) -> None:
    """Adds to the handlers. Those compiled together are kept together, and each by itself knows with which others."""
    if not keys:
        return
    target, cache = host_target(), KernelCache()
    names = {key: digest("warp handler", operation_of(key).text, target.key) for key in keys}
    operations = {name: operation_of(key) for key, name in names.items()}  # several forms may be one operation
    packs: dict[str, tuple[list[str], bytes]] = {}  # functions that they call, and object code
    missing = []
    for name in operations:
        entry = cache.get(name)
        pack = entry[0]["pack"] if entry is not None else ""
        if pack not in packs:
            whole = cache.get(pack) if pack else None
            if whole is None:
                missing.append(name)
            else:
                packs[pack] = whole[0]["calls"], whole[1]
    if missing:
        pack = digest(*missing)
        packs[pack] = _pack({name: operations[name] for name in missing})
        cache.put(pack, {"calls": packs[pack][0]}, packs[pack][1])
        for name in missing:
            cache.put(name, {"pack": pack}, b"")
    addresses = runtime_addresses()
    imports = {name: addresses[name] for called, _ in packs.values() for name in called}
    symbols = [f"h{name}" for name in operations]
    linked = dict(zip(operations, target.link([p for _, p in packs.values()], *symbols, imports=imports), strict=True))
    _handlers.update((key, linked[name]) for key, name in names.items())


def _pack(operations: dict[str, Operation]) -> tuple[list[str], bytes]:
    """Handlers by their names as object code, and the functions of the runtime that it calls."""
    texts = [one.text.replace("@HANDLER", f"@h{name}") for name, one in operations.items()]
    texts += dict.fromkeys(line for one in operations.values() for line in one.declarations)
    calls = sorted({name for one in operations.values() for name in one.calls})
    return calls, host_target().emit("\n".join(texts), 1, as_written=True)


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
