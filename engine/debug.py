"""Looking inside: the products of the compiler for a kernel, and where its time goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from engine.compiler import pipeline
from engine.compiler.kernel import Kernel

STAGES = ("hir", "mir", "llvm", "asm", "ptx")


def explain(kernel: Kernel, stages: tuple[str, ...] = ("hir", "mir", "llvm", "asm")) -> str:
    """The text of each compiler stage of `kernel` as last compiled, under a heading each, as one report.

    stages: which of "hir" (typed, structured), "mir" (scalars, calls inlined), "llvm", "asm", "ptx" to show. A generic
    kernel must have been launched once, since its types come from the arguments. Raises ValueError for an unknown one.
    """
    unknown = [s for s in stages if s not in STAGES]
    if unknown:
        raise ValueError(f"unknown stage '{unknown[0]}'; stages are {', '.join(STAGES)}")
    products = kernel.stages
    decision = products.decision
    form = f"{decision.width} threads at a time" if decision.shape == "lanes" else "one thread after the other"
    head = f"kernel {kernel.name}: shape {decision.shape} ({form}): {'; '.join(decision.reasons)}"
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
