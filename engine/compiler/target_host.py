"""The host CPU as a target: LLVM text to object code, object code to callable addresses.

Four native functions serve all kernels: `weft_region`, which the workers of a parallel region enter (it claims chunks
until none is left), `weft_call`, for small grids on the caller, `weft_launch`, the same from one block of memory, and
`weft_replay` (`emit_replay`), which runs a whole graph. All set the IEEE floating-point mode and restore the caller's:
other libraries switch flush-to-zero on, which would change our results.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import llvmlite

from engine.compiler import llvm
from engine.compiler.cache import KernelCache, digest
from engine.compiler.emit_replay import replay_text
from engine.errors import DeviceError, InternalError

# Passes behind LLVM's simplification at level 1, which has no value numbering, and those for code with little to gain
_NUMBERING = ("new_gvn", "instruction_combine")
_SHORT = ("sroa", "simplify_cfg", "instruction_combine", "new_gvn", "instruction_combine", "simplify_cfg")

# what all native functions call around a kernel
_STATE_TEXT = """
declare void {set_state}
{declarations}

define internal i64 @enter() {{
{save}
}}

define internal void @leave(i64 %state) {{
{restore}
}}
"""

_LAUNCHES = """
define void @weft_call(ptr %range, ptr %params, i64 %begin, i64 %end) nounwind {
  %state = call i64 @enter()
  call void %range(ptr %params, i64 %begin, i64 %end)
  call void @leave(i64 %state)
  ret void
}

; block: range function, size, address of an i32 count or 0, address of the fault record or 0
; (eight bytes each), then the parameters
define void @weft_launch(ptr %block) nounwind {
entry:
  %range = load ptr, ptr %block
  %size.at = getelementptr i64, ptr %block, i64 1
  %capacity = load i64, ptr %size.at
  %count.at = getelementptr i64, ptr %block, i64 2
  %count = load ptr, ptr %count.at
  %counted = icmp ne ptr %count, null
  br i1 %counted, label %indirect, label %run
indirect:
  %count.i32 = load i32, ptr %count
  %count.i64 = sext i32 %count.i32 to i64
  %fewer = icmp slt i64 %count.i64, %capacity
  %limited = select i1 %fewer, i64 %count.i64, i64 %capacity
  br label %run
run:
  %size = phi i64 [ %capacity, %entry ], [ %limited, %indirect ]
  %params = getelementptr i64, ptr %block, i64 4
  call void @weft_call(ptr %range, ptr %params, i64 0, i64 %size)
  ret void
}

; context, eight i64: range function, params, size, chunk, next, workers, address of an i32 count or 0, tickets
define void @weft_region(ptr %context) nounwind {
entry:
  %range = load ptr, ptr %context
  %params.at = getelementptr i64, ptr %context, i64 1
  %params = load ptr, ptr %params.at
  %size.at = getelementptr i64, ptr %context, i64 2
  %capacity = load i64, ptr %size.at
  %chunk.at = getelementptr i64, ptr %context, i64 3
  %chunk = load i64, ptr %chunk.at
  %next.at = getelementptr i64, ptr %context, i64 4
  %count.at = getelementptr i64, ptr %context, i64 6
  %count = load ptr, ptr %count.at
  %counted = icmp ne ptr %count, null
  br i1 %counted, label %indirect, label %first
indirect:
  %count.i32 = load i32, ptr %count
  %count.i64 = sext i32 %count.i32 to i64
  %fewer = icmp slt i64 %count.i64, %capacity
  %limited = select i1 %fewer, i64 %count.i64, i64 %capacity
  br label %first
first:
  %size = phi i64 [ %capacity, %entry ], [ %limited, %indirect ]
  %begin.first = atomicrmw add ptr %next.at, i64 %chunk monotonic
  %work = icmp slt i64 %begin.first, %size
  br i1 %work, label %signin, label %done
signin:
  %tickets.at = getelementptr i64, ptr %context, i64 7
  %ticket = atomicrmw add ptr %tickets.at, i64 1 monotonic
  %low = and i64 %ticket, 63
  %bit = shl i64 1, %low
  %workers.at = getelementptr i64, ptr %context, i64 5
  %old = atomicrmw or ptr %workers.at, i64 %bit monotonic
  %state = call i64 @enter()
  br label %run
run:
  %begin = phi i64 [ %begin.first, %signin ], [ %begin.next, %run ]
  %whole = add i64 %begin, %chunk
  %cut = icmp slt i64 %whole, %size
  %end = select i1 %cut, i64 %whole, i64 %size
  call void %range(ptr %params, i64 %begin, i64 %end)
  %begin.next = atomicrmw add ptr %next.at, i64 %chunk monotonic
  %more = icmp slt i64 %begin.next, %size
  br i1 %more, label %run, label %leave
leave:
  call void @leave(i64 %state)
  br label %done
done:
  ret void
}
"""

# rounding to nearest, no flushing, all exceptions masked
_STATE = {
    "x86_64": {
        "set_state": "@llvm.x86.sse.ldmxcsr(ptr)",
        "declarations": "declare void @llvm.x86.sse.stmxcsr(ptr)",
        "save": "  %at = alloca i32\n  call void @llvm.x86.sse.stmxcsr(ptr %at)\n  %old = load i32, ptr %at\n"
        "  store i32 8064, ptr %at\n  call void @llvm.x86.sse.ldmxcsr(ptr %at)\n"
        "  %wide = zext i32 %old to i64\n  ret i64 %wide",
        "restore": "  %at = alloca i32\n  %old = trunc i64 %state to i32\n  store i32 %old, ptr %at\n"
        "  call void @llvm.x86.sse.ldmxcsr(ptr %at)\n  ret void",
    },
    "aarch64": {
        "set_state": "@llvm.aarch64.set.fpcr(i64)",
        "declarations": "declare i64 @llvm.aarch64.get.fpcr()",
        "save": "  %old = call i64 @llvm.aarch64.get.fpcr()\n  call void @llvm.aarch64.set.fpcr(i64 0)\n  ret i64 %old",
        "restore": "  call void @llvm.aarch64.set.fpcr(i64 %state)\n  ret void",
    },
}
_STATE["arm64"] = _STATE["aarch64"]


def _without_lock(name: str) -> Any:
    """A function of llvmlite without the lock that lets one thread at a time into LLVM.

    LLVM itself needs no lock between threads that share no context, module or target machine, and the two functions
    called through this take nearly all of the time.
    """
    function = getattr(llvm.ffi.lib, name)
    return getattr(function, "_cfn", function)


def _simplify(module: Any, machine: Any, straight: bool) -> None:
    """Optimises each function by itself, in a third to a half of the time of LLVM's level 2.

    That list repeats its simplification after loop passes that have nothing to do in code whose vectors are made. Code
    that is `straight` gets the shortest list, and so does an internal function, the code for threads left over.
    """
    tuning = llvm.create_pipeline_tuning_options(speed_level=1)
    tuning.loop_unrolling = True
    tuning.loop_vectorization = tuning.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, tuning)
    run = _without_lock("LLVMPY_RunNewFunctionPassManager")
    for function in module.functions:
        if function.is_declaration:
            continue
        if straight or function.linkage is llvm.Linkage.internal:
            run(_listed(_SHORT), function, builder)
        else:
            run(builder.getFunctionPassManager(), function, builder)
            run(_listed(_NUMBERING), function, builder)


def _listed(names: tuple[str, ...]) -> Any:
    """A pass manager for functions with these passes of LLVM."""
    manager = llvm.create_new_function_pass_manager()
    for name in names:
        getattr(manager, f"add_{name}_pass")()
    return manager


class HostTarget:
    """This machine's CPU. `key` names everything about it that object code depends on."""

    name = "cpu"

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.triple = llvm.get_process_triple()
        self.cpu = llvm.get_host_cpu_name()
        self.features = llvm.get_host_cpu_features().flatten()
        version = ".".join(map(str, llvm.llvm_version_info))
        enabled = self.features.split(",")
        self.lanes = 16 if "+avx512f" in enabled else 8 if "+avx2" in enabled else 4  # of 32 bits
        self.gathers = "+avx512f" in enabled  # AVX2's gather instruction is no faster than loads one by one
        # In LLVM's table for Zen a scheduler is on whose time grows with the square of the accesses in a block; the
        # processors reorder by themselves. All other tables have it off, and Haswell's is right about the rest.
        self.tune = "haswell" if self.cpu.startswith("znver") else ""
        self.key = digest(self.triple, self.cpu, self.features, llvmlite.__version__, version)
        self._threads = threading.local()
        self._numbers = itertools.count()
        self._jit: Any = None
        self._jit_machine: Any = None
        self._lock = threading.Lock()
        self._linked: list[Any] = []  # code stays loaded for as long as the process runs

    def _new_machine(self, opt_level: int) -> Any:
        return llvm.Target.from_triple(self.triple).create_target_machine(
            cpu=self.cpu, features=self.features, opt=opt_level, reloc="pic", codemodel="small", jit=True
        )

    def machine(self, opt_level: int) -> Any:
        """This Python thread's TargetMachine: LLVM's is not safe to share."""
        machines = self._threads.__dict__.setdefault("machines", {})
        if opt_level not in machines:
            machines[opt_level] = self._new_machine(opt_level)
        return machines[opt_level]

    def optimized(self, text: str, opt_level: int = 2, vectors: str = "loops") -> Any:
        """The LLVM module parsed, verified and optimised, and the machine to emit it with.

        vectors: what LLVM shall make vectors of: "loops", "none" (it has vectors already, or is large), "straight"
        (none, and the loop over threads is the only one), or "all", which adds straight-line code and on a large
        kernel takes four times as long as all other passes together. At level 2 "none" and "straight" leave most
        of LLVM's passes out (`_simplify`), at level 3 they do not.
        """
        module, machine = self.parsed(text, opt_level)
        none = vectors in ("none", "straight")
        if none and opt_level == 2:
            _simplify(module, machine, vectors == "straight")
            return module, machine
        tuning = llvm.create_pipeline_tuning_options(speed_level=opt_level)
        tuning.loop_unrolling = opt_level > 1
        tuning.loop_vectorization = opt_level > 1 and not none
        tuning.slp_vectorization = vectors == "all"
        builder = llvm.create_pass_builder(machine, tuning)
        _without_lock("LLVMPY_RunNewModulePassManager")(builder.getModulePassManager(), module, builder)
        return module, machine

    def parsed(self, text: str, opt_level: int) -> tuple[Any, Any]:
        """The LLVM module parsed and verified as it is, and the machine to emit it with."""
        if self.tune:
            text = text.replace(") nounwind", f') nounwind "tune-cpu"="{self.tune}"')
        module = llvm.parse_assembly(text, context=llvm.create_context())
        module.verify()
        return module, self.machine(opt_level)

    def emit(self, text: str, opt_level: int = 2, vectors: str = "loops", as_written: bool = False) -> bytes:
        """Object code of an LLVM module given as text; `as_written` only selects instructions, without other passes."""
        module, machine = self.parsed(text, opt_level) if as_written else self.optimized(text, opt_level, vectors)
        with llvm.ffi.OutputString() as message:
            buffer = _without_lock("LLVMPY_TargetMachineEmitToMemory")(machine, module, 1, message)
            if not buffer:
                raise InternalError(f"LLVM cannot emit object code: {message}")
        try:
            return ctypes.string_at(
                llvm.ffi.lib.LLVMPY_GetBufferStart(buffer), llvm.ffi.lib.LLVMPY_GetBufferSize(buffer)
            )
        finally:
            llvm.ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)

    def assembly(self, text: str, opt_level: int = 2, vectors: str = "loops") -> str:
        """Assembly of the same, for people."""
        module, machine = self.optimized(text, opt_level, vectors)
        return machine.emit_assembly(module)

    def link(
        self, image: bytes | Sequence[bytes], *symbols: str, imports: Mapping[str, int] | None = None
    ) -> tuple[int, ...]:
        """Addresses of `symbols` in object code, which is loaded for good; `imports` are those of what it calls."""
        with self._lock:
            if self._jit is None:
                self._jit_machine = self._new_machine(2)
                self._jit = llvm.create_lljit_compiler(self._jit_machine)
            builder = llvm.JITLibraryBuilder().add_current_process()
            for one in (image,) if isinstance(image, bytes) else image:
                builder.add_object_img(one)
            for symbol in symbols:
                builder.export_symbol(symbol)
            for symbol, address in (imports or {}).items():
                builder.import_symbol(symbol, address)
            library = builder.link(self._jit, f"weft{next(self._numbers)}")
            self._linked.append(library)
        return tuple(library[symbol] for symbol in symbols)

    def _native(self, text: str, *symbols: str) -> tuple[int, ...]:
        """Addresses of native functions given as LLVM text, which may enter and leave the floating-point state."""
        architecture = self.triple.split("-")[0]
        if architecture not in _STATE:
            raise DeviceError("target_host", name=f"the processor architecture '{architecture}' is not supported")
        text = _STATE_TEXT.format(**_STATE[architecture]) + text
        cache, key = KernelCache(), digest(text, self.key)
        entry = cache.get(key)
        image = entry[1] if entry else self.emit(text)
        if entry is None:
            cache.put(key, {}, image)
        return self.link(image, *symbols)

    @functools.cached_property
    def _launches(self) -> tuple[int, ...]:
        return self._native(_LAUNCHES, "weft_region", "weft_call", "weft_launch")

    @property
    def region_address(self) -> int:
        """Address of `void weft_region(int64 context[8])`, entered by every worker of a parallel region."""
        return self._launches[0]

    @property
    def call_address(self) -> int:
        """Address of `void weft_call(range_fn, params, int64 begin, int64 end)`: a whole range on the caller."""
        return self._launches[1]

    @property
    def launch_address(self) -> int:
        """Address of `void weft_launch(block)`: a whole launch on the caller, from its one block (see `_LAUNCHES`)."""
        return self._launches[2]

    @functools.cached_property
    def replay_address(self) -> int:
        """Address of `int64 weft_replay(context)`: a graph, from the row that its context says (see `emit_replay`)."""
        (address,) = self._native(replay_text(self.triple.split("-")[0], time.CLOCK_MONOTONIC), "weft_replay")
        return address


@functools.cache
def host_target() -> HostTarget:
    """The one host target of this process."""
    return HostTarget()
