"""Looking inside: the products of the compiler for a kernel, and where its time goes."""

from __future__ import annotations

from engine.compiler.kernel import Kernel

STAGES = ("hir", "mir", "llvm", "asm")


def explain(kernel: Kernel, stages: tuple[str, ...] = STAGES) -> str:
    """The text of each compiler stage of `kernel` as last compiled, under a heading each, as one report.

    stages: which of "hir" (typed, structured), "mir" (scalars, calls inlined), "llvm", "asm" to show. A generic kernel
    must have been launched once, since its types come from the arguments. Raises ValueError for an unknown stage.
    """
    unknown = [s for s in stages if s not in STAGES]
    if unknown:
        raise ValueError(f"unknown stage '{unknown[0]}'; stages are {', '.join(STAGES)}")
    products = kernel.stages
    decision = products.decision
    form = f"{decision.width} threads at a time" if decision.shape == "lanes" else "one thread after the other"
    head = f"kernel {kernel.name}: shape {decision.shape} ({form}): {'; '.join(decision.reasons)}"
    return "\n\n".join([head, *(f"== {stage} ==\n{products[stage]}" for stage in stages)])
