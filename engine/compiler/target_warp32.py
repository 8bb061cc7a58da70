"""PTX text to code of this machine's CPU that runs it a warp at a time: the steps in order, and their cache.

parse (ptx_parser) → flow (ptx_flow) → words (emit_warp32), which are kept (recall_warp32), and for each new form of
instruction LLVM text (emit_warp32_handler) → object code, which is kept → address
"""

from __future__ import annotations

import functools
import gc
import threading
import time
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.compiler.cache import KernelCache, digest
from engine.compiler.emit_warp32 import WarpCode, emit_warp, lay_out, operations
from engine.compiler.emit_warp32_handler import Operation
from engine.compiler.emit_warp32_runtime import runtime
from engine.compiler.emit_warp32_schedules import PICKS
from engine.compiler.ptx_parser import Module, Variable, parse
from engine.compiler.recall_warp32 import keep, recalled, translator_version, values_of, variable_of
from engine.compiler.target_host import host_target

RED_ZONE = 256  # bytes between the variables of a module
_lock = threading.Lock()
_handlers: dict[str, int] = {}  # name of an operation → address


@dataclass
class Translation:
    """A PTX module and the code of each of its kernels; `times` are seconds by stage."""

    text: str
    target: str  # "sm_80": what the text is for
    kernels: dict[str, WarpCode]
    variables: list[Variable]
    offsets: dict[str, int]  # of the variables, in the module's block of memory
    size: int  # of that block
    times: dict[str, float] = field(default_factory=dict)
    parsed: Module | None = None

    @property
    def module(self) -> Module:
        """What the text says; of a translation from the cache folder it is read when it is asked for."""
        if self.parsed is None:
            self.parsed = parse(self.text)
        return self.parsed


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
    key = digest("warp words", ptx, translator_version())
    held = recalled(key)
    if held is not None:
        kernels, others = held
        if _link({name for code in kernels.values() for name in code.names}, {}):
            others["variables"] = [variable_of(values) for values in others["variables"]]
            return Translation(ptx, kernels=kernels, times={"recall": time.perf_counter() - start}, **others)
    collects = gc.isenabled()
    gc.disable()  # there is no garbage, and looking for it among so many objects takes a third of the time
    try:
        made = _translated(ptx)
    finally:
        if collects:
            gc.enable()
    keep(key, made.kernels, target=made.target, variables=[values_of(v) for v in made.variables],
         offsets=made.offsets, size=made.size)  # fmt: skip
    return made


def _translated(ptx: str) -> Translation:
    start = time.perf_counter()
    module = parse(ptx)
    parsed = time.perf_counter()
    variables = [v for v in module.variables.values() if v.space in ("global", "const")]
    offsets, size = lay_out([_aligned(v) for v in variables], RED_ZONE)
    kernels = {name: emit_warp(module, one, offsets) for name, one in module.functions.items() if one.is_kernel}
    times = {"parse": parsed - start, "translate": time.perf_counter() - parsed}
    return Translation(ptx, module.target, kernels, variables, offsets, size, times, module)


def _aligned(v: Variable) -> Variable:
    return Variable(v.name, v.space, max(v.align, 256), v.size, v.initial, v.symbols)


def link_warp(code: WarpCode) -> LinkedCode:
    """A kernel's code, ready to run; what handlers are missing is compiled now or taken from the cache folder."""
    known = runtime_addresses()
    _link(set(code.names), operations())
    addresses = [known[name] if name in known else _handlers[name] for name in code.names]
    words = array("q", code.words)
    for place in code.handlers:
        words[place] = addresses[words[place]]
    base = words.buffer_info()[0]
    for place in code.targets:
        words[place] += base
    return LinkedCode(words, array("q", [base + 8 * word for word in code.blocks]), known[PICKS[code.schedule]])


def _link(names: set[str], operations: Mapping[str, Operation]) -> bool:
    """Adds handlers to those in memory: from the cache folder, or compiled. False: there is one that cannot be had.

    Those compiled together are kept together, and each by itself knows with which others.
    """
    addresses, cache, target = runtime_addresses(), KernelCache(), host_target()
    with _lock:
        wanted = sorted(name for name in names if name not in _handlers and name not in addresses)
        packs: dict[str, tuple[list[str], bytes]] = {}  # functions that they call, and object code
        missing = []
        for name in wanted:
            entry = cache.get(_key(name))
            pack = entry[0]["pack"] if entry is not None else ""
            if pack not in packs:
                whole = cache.get(pack) if pack else None
                if whole is None:
                    missing.append(name)
                else:
                    packs[pack] = whole[0]["calls"], whole[1]
        if not operations.keys() >= set(missing):
            return False
        if missing:
            pack = digest("warp pack", target.key, *missing)
            packs[pack] = _pack({name: operations[name] for name in missing})
            cache.put(pack, {"calls": packs[pack][0]}, packs[pack][1])
            for name in missing:
                cache.put(_key(name), {"pack": pack}, b"")
        if wanted:
            imports = {name: addresses[name] for called, _ in packs.values() for name in called}
            images, symbols = [image for _, image in packs.values()], [f"h{name}" for name in wanted]
            _handlers.update(zip(wanted, target.link(images, *symbols, imports=imports), strict=True))
    return True


def _key(name: str) -> str:
    return digest("warp handler", name, host_target().key)


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
