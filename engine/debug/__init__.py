"""Looking inside: the products of the compiler for a kernel, and what is wrong in kernels that run."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.compiler import pipeline
from engine.compiler.kernel import Kernel
from engine.config import config
from engine.context.device import ALIASES, get_device
from engine.context.emulator.status import DriverFailure
from engine.context.launch import launch_unseen

if TYPE_CHECKING:
    from engine.compiler.audit.report import KernelAudit
    from engine.context.emulator.schedules import Outcome
    from engine.context.emulator.trace import Trace
    from engine.debug.stepper import Stepper

STAGES = pipeline.Stages.LEVELS


def explain(kernel: Kernel, stages: tuple[str, ...] = ("hir", "mir", "llvm", "asm")) -> str:
    """The text of each compiler stage of `kernel` as last compiled, under a heading each, as one report.

    stages: which of "hir" (typed, structured), "mir" (scalars, calls inlined), "block" (what the threads of a GPU's
    block do of a kernel with tiles), "llvm", "asm", "ptx" to show. A generic kernel must have been
    launched once, since its types come from the arguments. Raises ValueError for an unknown one.
    """
    unknown = [s for s in stages if s not in STAGES]
    if unknown:
        raise ValueError(f"unknown stage '{unknown[0]}'; stages are {', '.join(STAGES)}")
    products = kernel.stages
    decision = products.decision
    form = f"{decision.width} threads at a time" if decision.shape == "lanes" else "one thread after the other"
    head = f"kernel {kernel.name}: shape {decision.shape} ({form}): {'; '.join(products.measured or decision.reasons)}"
    return "\n\n".join([head, *(f"== {stage} ==\n{products[stage]}" for stage in stages)])


@dataclass
class CompileProfile:
    """What was compiled while it was watched: (kernel, target, seconds by stage, whether it came from the cache)."""

    rows: list[tuple[str, str, dict[str, float], bool]] = field(default_factory=list)

    @property
    def totals(self) -> dict[str, float]:
        """Seconds by stage over all kernels, in the order of the stages."""
        sums: dict[str, float] = {}
        for _, _, times, _ in self.rows:
            for stage, seconds in times.items():
                sums[stage] = sums.get(stage, 0.0) + seconds
        return sums

    def __str__(self) -> str:
        """A table in milliseconds, the dearest kernel first."""
        stages = list(self.totals)
        name = max([len(row[0]) for row in self.rows], default=0)
        lines = [" ".join([f"{'kernel':{name}}", f"{'target':7}", *(f"{s:>9}" for s in stages), f"{'sum':>9}"])]
        rows = sorted(self.rows, key=lambda row: -sum(row[2].values()))
        for kernel, target, times, cached in [*rows, ("", "", self.totals, False)]:
            figures = [f"{1e3 * times[s]:9.2f}" if s in times else 9 * " " for s in stages]
            total = f"{1e3 * sum(times.values()):9.2f}"
            lines.append(" ".join([f"{kernel:{name}}", f"{target:7}", *figures, total, *["(cache)"] * cached]))
        return "\n".join(lines)


@contextmanager
def profile_compile() -> Iterator[CompileProfile]:
    """Watches what is compiled inside the block; printing the profile shows the time of every stage.

    A kernel that an earlier run left in the cache folder has only the stages that were needed to load it.
    """
    profile = CompileProfile()

    def note(made: pipeline.Compiled, target: pipeline.Target) -> None:
        profile.rows.append((made.name, getattr(target, "arch", target.name), dict(made.times), made.from_cache))

    pipeline.watchers.append(note)
    try:
        yield profile
    finally:
        pipeline.watchers.remove(note)


def trace(checks: Sequence[str] = ("mem", "init", "race", "sync"), schedules: bool = False) -> Trace:
    """`with trace() as report:` records and checks the launches on emulated GPUs in the block.

    report.findings: bounds and alignment (mem), reads of memory never written (init), races (race), divergent barriers
    (sync), each with lines and threads. report.metrics, report.kernels: cost of each line's accesses; instructions and
    share of active lanes of each kernel. schedules: run each launch under each schedule first, on a copy of the memory,
    and note in report.kernels the share of active lanes of each, and whether memory depends on it. Raises ConfigError
    for an unknown check, ImportError without cuda-python.
    """
    from engine.context.emulator.trace import Trace

    return Trace(checks, schedules)


def step(kernel: Kernel, dim: Any, inputs: Sequence[Any] = (), outputs: Sequence[Any] = (), device: Any = "emu",
         block_dim: int = 256) -> Stepper:  # fmt: skip
    """A launch on an emulated GPU that stands at its first line: `run` to a `breakpoint`, `step`, go `back`, look.

    The arguments are those of `launch`. The arrays show what the kernel has written so far. Raises ValueError for
    another device or a launch without threads, and whatever `launch` raises.
    """
    from engine.debug.stepper import Stepper

    return Stepper(kernel, dim, inputs, outputs, device, block_dim)


def schedules(kernel: Kernel, dim: Any, inputs: Sequence[Any] = (), outputs: Sequence[Any] = (), device: Any = "emu",
              seeds: Sequence[int] = (1, 2), block_dim: int = 256) -> list[Outcome]:  # fmt: skip
    """A launch under each order in which a GPU may run the lanes of its warps, and then once as usual.

    A row for "loop-aware" (a loop's header behind its body), "ipdom" (a stack of meeting points, as GPUs before Volta)
    and "random" with each seed: its share of active lanes, and whether it leaves the same memory. Where not, the
    kernel has a race, or float atomics. Raises ValueError for another device, and whatever `launch` raises.
    """
    from engine.context.emulator.schedules import compare
    from engine.debug.stepper import caught, device_error, emulated_driver

    driver = emulated_driver(device)
    launch = caught(kernel, dim, [*inputs, *outputs], device, block_dim)
    try:
        found = compare(launch, seeds)
    except DriverFailure as failure:
        raise device_error(driver, failure) from None
    launch_unseen(kernel, dim, [*inputs, *outputs], device, block_dim)
    return found


def trace_of(device: str) -> Trace:
    """What the launches on a device that is always traced ("cpu:trace", "emu:sm_90:trace") gave so far.

    Raises ValueError for a device that is not traced, DeviceError for one that does not exist.
    """
    home = get_device(device)
    gpus = getattr(getattr(home, "driver", None), "gpus", None)
    found: Trace | None = None if gpus is None else gpus[int(home.ordinal)].own_trace  # type: ignore[attr-defined]
    if found is None:
        raise ValueError(f"device '{device}' is not traced; 'cpu:trace' is, and 'emu:…:trace'")
    return found


def audit(kernel: Kernel, wide: bool = False, types: Sequence[Any] | None = None, confirm: bool = True) -> KernelAudit:
    """What can be proved about a kernel for all threads, shapes and arguments, and counterexamples where it cannot.

    types: of the arguments, for a generic kernel; default: its annotations. wide: extents and launch dimensions are
    bounded by 2³¹ instead of 2³⁰. confirm: run counterexamples in checked mode on the cpu. docs/audit.md has the rest.
    Raises CompileError for a kernel that does not compile.
    """
    from engine.debug.audit_module import audit as audit_one

    return audit_one(kernel, wide, types, confirm)


def trace_script(path: str, checks: Sequence[str], arguments: Sequence[str] = (), quiet: bool = False,
                 schedules: bool = False) -> Trace:  # fmt: skip
    """Runs a Python script with its launches on the emulated GPU, and returns the report.

    The default device and the names of GPUs mean `emu` meanwhile; `quiet` sends the script's own output to stderr.
    """
    report = trace(checks, schedules)
    argv, aliases = sys.argv, dict(ALIASES)
    sys.argv = [path, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    ALIASES.update(dict.fromkeys(("cuda", "cuda:0"), "emu"))
    try:
        with config.scope(device="emu"), redirect_stdout(sys.stderr if quiet else sys.stdout), report:
            runpy.run_path(path, run_name="__main__")
    finally:
        sys.path.pop(0)
        sys.argv = argv
        ALIASES.clear()
        ALIASES.update(aliases)
    return report
