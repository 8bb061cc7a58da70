"""The way from a typed function to machine code: a visible list of passes, then emission, the cache and the linker.

    HIR → guard → normalize → inline → scalarize → MIR → simplify → LLVM text → object code → address
                                                                              → PTX text, which a device loads

`compile_kernel` looks into the cache first; a hit runs no pass at all. Every level can be read afterwards from
`Compiled.stages`, which computes what is missing.
"""

from __future__ import annotations

import functools
import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.compiler.cache import KernelCache, digest
from engine.compiler.cooperate import cooperate
from engine.compiler.emit_amd import emit_amd
from engine.compiler.emit_blocks import emit_blocks, works_in_blocks
from engine.compiler.emit_lanes import emit_lanes
from engine.compiler.emit_ptx import GpuOptions, Sharing, emit_ptx, entry_name
from engine.compiler.emit_thread import ABI, Slot, abi, emit
from engine.compiler.faults import sites
from engine.compiler.guard import guard
from engine.compiler.inline import inline, without_customs
from engine.compiler.ir import Function, Op, Pass
from engine.compiler.normalize import normalize
from engine.compiler.printer import print_function
from engine.compiler.scalarize import scalarize
from engine.compiler.shape import Decision, choose
from engine.compiler.simplify import simplify
from engine.compiler.target_amd import AmdTarget
from engine.compiler.target_host import HostTarget, host_target
from engine.compiler.target_ptx import PtxTarget, ptx_target
from engine.compiler.types import SCALARS, LocalArray, pointer
from engine.compiler.verify import verify
from engine.config import config
from engine.errors import CompileError, ConfigError

MAX_STACK = 4 << 20  # bytes of local arrays and tiles; a thread has a stack of 8 MiB unless someone asks for less

Target = HostTarget | PtxTarget | AmdTarget  # that of AMD for `build` only


@dataclass(frozen=True)
class Options:
    """What, besides the kernel and the target, decides the code that is made."""

    fma: bool = True
    opt_level: int = 2
    dense: tuple[int, ...] = ()  # array parameters whose last dimension has no gaps (see `scalarize.dense_stride`)
    shape: str = "auto"  # "lanes", "thread", or the cost model's choice
    checked: bool = False
    verify_fp: bool = False
    lanes: int = 0  # threads per vector; 0: as many as the target has lanes of 32 bits,
    most_lanes: int = 0  # but no more than this, if it is not 0
    gpu: GpuOptions = GpuOptions()

    @classmethod
    def from_config(cls, dense: tuple[int, ...] = (), shape: str = "auto",
                    asked: Mapping[str, Any] | None = None) -> Options:  # fmt: skip
        """What `config` says, for a kernel that asks for `shape` and has the options `asked`."""
        wanted = wanted_shape(shape)
        shape = "auto" if wanted == "timed" else wanted
        return cls(config.fma, config.opt_level, dense, shape, config.checked, config.verify_fp, config.lanes,
                   (asked or {}).get("lanes", 0), GpuOptions.of_kernel(asked or {}))  # fmt: skip


def wanted_shape(shape: str) -> str:
    """The shape for a kernel that asks for `shape`: "auto" leaves it to the configuration."""
    return config.shape if shape == "auto" else shape


@dataclass(frozen=True)
class Stage:
    """A pass and the IR level that it leaves behind."""

    name: str
    run: Callable[[Function, Options], Function]
    level: str


BUILT_IN = (
    Stage("guard", lambda fn, options: guard(fn, options.checked, options.verify_fp), "hir"),
    Stage("normalize", lambda fn, options: normalize(fn), "hir"),
    Stage("inline", lambda fn, options: inline(fn), "hir"),
    Stage("scalarize", lambda fn, options: scalarize(fn, options.dense), "mir"),
    Stage("simplify", lambda fn, options: simplify(fn, options.fma), "mir"),
)
passes: list[Stage] = list(BUILT_IN)


def register_ir_pass(name: str, run: Pass, after: str) -> None:
    """Adds a pass behind the pass `after`; it takes and returns a function of that pass's level.

    It holds for kernels compiled afterwards. These are not kept on disk: the cache cannot know what such a pass does.
    Raises `ConfigError` when no pass is called `after`, or `name` is taken.
    """
    names = [stage.name for stage in passes]
    if after not in names:
        raise ConfigError("register_ir_pass", f"there is no pass '{after}' (there are {', '.join(names)})")
    if name in names:
        raise ConfigError("register_ir_pass", f"a pass '{name}' exists already")
    at = names.index(after)
    passes.insert(at + 1, Stage(name, lambda fn, options: run(fn), passes[at].level))
    _forget()


def unregister_ir_pass(name: str) -> None:
    """Takes a registered pass out again."""
    passes[:] = [stage for stage in passes if stage.name != name or stage in BUILT_IN]
    _forget()


def _forget() -> None:
    """What was made with other passes is not what they make now."""
    _compiled.clear()
    _lowered.clear()


def lower(fn: Function, options: Options, times: dict[str, float] | None = None) -> Function:
    """HIR to MIR, made once: the machine code, the stages and the gradient of a kernel begin with the same MIR."""
    made = _lowered.setdefault(fn, {})
    key = (options.fma, options.dense, options.checked, options.verify_fp)
    if key not in made:
        made[key] = _lower(fn, options, {} if times is None else times)
    return made[key]


def _lower(fn: Function, options: Options, times: dict[str, float]) -> Function:
    """All passes, verified after each when `config.verify` says so, and at the end always."""
    check = config.verify
    if check:
        verify(fn, "hir")
    for stage in passes:
        start = time.perf_counter()
        fn = stage.run(fn, options)
        times[stage.name] = times.get(stage.name, 0.0) + time.perf_counter() - start
        if check:
            verify(fn, stage.level)
    start = time.perf_counter()
    if not check:
        verify(fn, "mir")
    times["verify"] = time.perf_counter() - start
    return fn


@dataclass(eq=False)
class Compiled:
    """A kernel's machine code: `address` of `void range(params, int64 begin, int64 end)` and how to pack `params`.

    For a GPU the address is 0 and `image` is the PTX, whose entry `symbol` takes the whole launch block.
    """

    name: str
    key: str
    symbol: str
    image: bytes
    address: int
    abi: ABI
    stages: Stages
    shape: str  # "lanes" or "thread"
    times: dict[str, float] = field(default_factory=dict)  # seconds by stage; after a hit only "key" and "link"
    from_cache: bool = False
    checks: bool = False  # whether it has checks, and needs a fault record
    sharing: Sharing | None = None  # where a block of a GPU runs what is one thread of the launch

    @property
    def sites(self) -> list[Op]:
        """The checks of the kernel, in the order that a fault record numbers them."""
        return sites(self.stages.plain)


class Stages(Mapping[str, Any]):
    """The kernel at every level as text: "hir", "mir", "block", "llvm", "asm", "ptx". What was not kept is computed.

    "block" is what a block of a GPU does for each thread of the launch, of kernels with tiles; else the same as "mir".
    "asm" is the host's assembly, "block" and "ptx" are those of `config.ptx_arch`, unless it was compiled for the one
    or the other.
    """

    LEVELS = ("hir", "mir", "block", "llvm", "asm", "ptx")

    def __init__(self, hir: Callable[[], Function], name: str, target: Target, options: Options):
        self._lower, self._name, self._target, self._options = hir, name, target, options
        self._known: dict[str, Any] = {}
        self._shared_out: dict[int, tuple[Function, Sharing] | None] = {}  # by bytes of a block's memory
        self.measured: tuple[str, ...] = ()  # why this shape, where the clock said so

    def __getitem__(self, level: str) -> str:
        if level not in self.LEVELS:
            raise KeyError(level)
        name = level
        if level in ("block", "ptx") and not isinstance(self._target, PtxTarget):
            name = f"{level} {ptx_target().key}"  # the setting may have changed
        if name not in self._known:
            self._known[name] = self._compute(level)
        return self._known[name]

    def _compute(self, level: str) -> str:
        if level == "hir":
            return print_function(self._lower())
        if level == "mir":
            return print_function(self.mir)
        if level == "llvm":
            return self.llvm(self._target)
        if level == "block":
            made = self.shared_out(self._target if isinstance(self._target, PtxTarget) else ptx_target())
            return print_function(made[0] if made else self.mir)
        other = isinstance(self._target, PtxTarget) != (level == "ptx")
        if not other:
            return self._target.assembly(self["llvm"], self._options.opt_level, self.decision.vectors)
        target: Target = ptx_target() if level == "ptx" else host_target()
        return target.assembly(self.llvm(target), self._options.opt_level, self.decision.vectors)

    def llvm(self, target: Target) -> str:
        """The LLVM text for a target."""
        if isinstance(target, PtxTarget):
            fn, sharing = self.shared_out(target) or (self.plain, None)
            return emit_ptx(fn, entry_name(self._name), self._options.gpu, sharing)
        if isinstance(target, AmdTarget):
            return emit_amd(self.plain, entry_name(self._name), self._options.gpu, target.architecture)
        if self.decision.shape == "lanes":
            return emit_lanes(self.plain, symbol_of(self._name), self.decision.width, target.gathers)
        in_form = emit_blocks if works_in_blocks(self.plain) else emit
        return in_form(self.plain, symbol_of(self._name))

    @functools.cached_property
    def mir(self) -> Function:
        """The MIR itself."""
        return lower(self._lower(), self._options)

    @functools.cached_property
    def plain(self) -> Function:
        """The MIR to emit: functions with gradients of their own stand in it as any other."""
        return without_customs(self.mir)

    def shared_out(self, target: Target) -> tuple[Function, Sharing] | None:
        """The MIR in which a block of a GPU does what a thread does in `plain`: of kernels whose tiles fit there."""
        if not isinstance(target, PtxTarget) or self._options.gpu.grid_stride:
            return None
        room = target.architecture.shared
        if room not in self._shared_out:
            made = self._shared_out[room] = cooperate(self.plain, room)
            if made is not None:
                verify(made[0], "mir")
        return self._shared_out[room]

    @functools.cached_property
    def decision(self) -> Decision:
        """The shape of the host's code, and why."""
        o, host = self._options, host_target().lanes
        return choose(self.plain, o.shape, o.lanes or min(host, o.most_lanes or host))

    def __iter__(self) -> Iterator[str]:
        return iter(self.LEVELS)

    def __len__(self) -> int:
        return len(self.LEVELS)


def symbol_of(name: str) -> str:
    """The kernel's name in object code, so that profilers show it."""
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name) + "_range"


# called with what was compiled or loaded and its target (`debug.profile_compile`)
watchers: list[Callable[[Compiled, Target], None]] = []


def watched(made: Compiled, target: Target) -> Compiled:
    """Tells the watchers of a kernel that is new to its owner."""
    for watcher in list(watchers):
        watcher(made, target)
    return made


_compiled: dict[str, Compiled] = {}
_lowered: weakref.WeakKeyDictionary[Function, dict[Any, Function]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()
_digests: weakref.WeakKeyDictionary[Function, str] = weakref.WeakKeyDictionary()


def function_digest(fn: Function) -> str:
    """Hash of a function's HIR and of all functions that it calls."""
    known = _digests.get(fn)
    if known is None:
        kind = "" if fn.gradient is None else "with its own gradient"
        known = _digests[fn] = digest(print_function(fn), kind, *[function_digest(callee) for callee in fn.callees()])
    return known


def place_digest(fn: Function) -> str:
    """Hash of where in which files a function and all functions that it calls stand."""
    own = digest(fn.file, print_function(fn, locations=True))
    return digest(own, *[place_digest(callee) for callee in fn.callees()])


@functools.cache
def compiler_version() -> str:
    """Hash of the compiler's own source: the HIR is in the key, so only what comes after it counts."""
    folder = Path(__file__).parent
    names = ("types", "ops", "ir", "guard", "faults", "normalize", "inline", "scalarize", "simplify", "simplify_rules",
             "contract", "emit_ops", "emit_thread", "uniform", "shape", "emit_lanes", "emit_lanes_memory",
             "emit_lanes_control", "emit_blocks", "cooperate", "cooperate_nests", "cooperate_memory", "target_host",
             "emit_ptx", "target_ptx", "pipeline")  # fmt: skip
    return digest(*[(folder / f"{name}.py").read_bytes() for name in names])


def compile_kernel(fn: Function, target: Target | None = None, options: Options | None = None) -> Compiled:
    """The machine code of a kernel's HIR, from memory, from the cache folder, or made now.

    Raises `CompileError` for a feature that the target lacks, `InternalError` for a bug of the compiler. Any
    thread may call.
    """
    target = target or host_target()
    options = options or Options.from_config()
    start = time.perf_counter()
    places = place_digest(fn) if isinstance(target, PtxTarget) and options.gpu.lineinfo else ""
    key = digest(function_digest(fn), places, repr(options), target.key, compiler_version())
    times = {"key": time.perf_counter() - start}
    known = _compiled.get(key)
    if known is not None:
        return known
    plain = len(passes) == len(BUILT_IN)
    made = _from_cache(lambda: fn, fn.name, target, options, key, times) if plain else None
    if made is None:
        with no_collection():
            made = _make(fn, target, options, key, times, keep=plain)
    with _lock:
        return _compiled.setdefault(key, made)


def compile_mir(mir: Function, target: Target | None = None, options: Options | None = None) -> Compiled:
    """The machine code of a kernel that was made as MIR (gradients); cached under the MIR's own text.

    It has the thread shape: what it records lies in a chain of blocks for each thread.
    """
    target = target or host_target()
    options = replace(options or Options.from_config(), shape="thread")
    places = isinstance(target, PtxTarget) and options.gpu.lineinfo
    key = digest("mir", print_function(mir, locations=places), repr(options), target.key, compiler_version())
    known = _compiled.get(key) or _from_cache(lambda: mir, mir.name, target, options, key, {})
    if known is None:
        verify(mir, "mir")
        stages = Stages(lambda: mir, mir.name, target, options)
        stages.__dict__["mir"] = mir
        with no_collection():
            known = _link(mir, stages, target, options, key, {}, keep=True)
    known.stages.__dict__["mir"] = mir
    with _lock:
        return _compiled.setdefault(key, known)


@contextmanager
def no_collection() -> Iterator[None]:
    """Passes make many objects and drop few: walking them all over and over takes a tenth of the compiler's time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def load_kernel(
    hir: Callable[[], Function], name: str, key: str, target: Target, options: Options
) -> Compiled | None:
    """The kernel stored under `key`, from memory or the cache folder; `hir` is called if its stages are looked at."""
    if len(passes) != len(BUILT_IN):
        return None
    made = _compiled.get(key) or _from_cache(hir, name, target, options, key, {})
    if made is None:
        return None
    with _lock:
        return _compiled.setdefault(key, made)


def _from_cache(
    hir: Callable[[], Function], name: str, target: Target, options: Options, key: str, times: dict[str, float]
) -> Compiled | None:
    entry = KernelCache().get(key)
    if entry is None:
        return None
    header, image = entry
    stages = Stages(hir, name, target, options)
    layout = _abi_from_json(header["slots"])
    made = Compiled(name, key, header["symbol"], b"", 0, layout, stages, header["shape"], times, True, header["checks"],
                    header["sharing"] and Sharing(*header["sharing"]))  # fmt: skip
    return _loaded(made, image, target)


def _make(
    fn: Function, target: Target, options: Options, key: str, times: dict[str, float], keep: bool
) -> Compiled:
    stages = Stages(lambda: fn, fn.name, target, options)
    mir = stages.__dict__["mir"] = lower(fn, options, times)
    return _link(mir, stages, target, options, key, times, keep)


def _link(
    mir: Function, stages: Stages, target: Target, options: Options, key: str, times: dict[str, float], keep: bool
) -> Compiled:
    """From MIR to linked machine code, stored in the cache where `keep` says so."""
    symbol = entry_name(mir.name) if isinstance(target, PtxTarget) else symbol_of(mir.name)
    if not isinstance(target, PtxTarget):
        check_stack(stages.plain, stages.decision.width)
    clock = time.perf_counter()
    shared_out = stages.shared_out(target)
    sharing = shared_out[1] if shared_out else None
    if sharing is not None:
        times["cooperate"] = time.perf_counter() - clock
    clock = time.perf_counter()
    text = stages._known["llvm"] = stages.llvm(target)
    times["emit"] = time.perf_counter() - clock
    clock = time.perf_counter()
    shape = stages.decision.shape
    image = target.emit(text, options.opt_level, stages.decision.vectors)
    times["llvm"] = time.perf_counter() - clock
    layout, checks = abi(mir), bool(sites(mir))
    if keep:
        header = {"symbol": symbol, "slots": _abi_to_json(layout), "shape": shape, "checks": checks,
                  "sharing": sharing}  # fmt: skip
        KernelCache().put(key, header, image)
    made = Compiled(mir.name, key, symbol, b"", 0, layout, stages, shape, times, checks=checks, sharing=sharing)
    return _loaded(made, image, target)


def _loaded(made: Compiled, image: bytes, target: Target) -> Compiled:
    """The code made ready to run on the host; that of GPUs is kept as it is."""
    if isinstance(target, HostTarget):
        clock = time.perf_counter()
        (made.address,) = target.link(image, made.symbol)
        made.times["link"] = time.perf_counter() - clock
        return made
    made.image = image
    if isinstance(target, PtxTarget):
        made.stages._known["ptx"] = image.decode()
    return made


def check_stack(mir: Function, width: int) -> None:
    """Refuses a kernel whose local arrays and tiles would overrun the stack of its thread: that ends the process."""
    arrays = [op.type for op in mir.body.walk() if op.kind == "local" and isinstance(op.type, LocalArray)]
    needed = width * sum(t.size * t.dtype.size for t in arrays)  # type: ignore[attr-defined]
    if needed > MAX_STACK:
        raise CompileError(
            f"the {len(arrays)} local arrays and tiles of '{mir.name}' take {needed} bytes, more than the {MAX_STACK} "
            "that a thread has for them: use smaller ones", filename=mir.file, lineno=mir.line)  # fmt: skip


_TYPES = {repr(t): t for t in (*SCALARS, pointer)}


def _abi_to_json(layout: ABI) -> list[list[Any]]:
    return [[s.param, list(s.path), repr(s.type), s.offset] for s in layout.slots]


def _abi_from_json(rows: list[list[Any]]) -> ABI:
    return ABI(tuple(Slot(param, tuple(path), _TYPES[name], offset) for param, path, name, offset in rows))
