"""Every kernel of the engine compiles to PTX; where ptxas is installed, it assembles and needs no more registers."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest

from engine.compiler.adjoint import Demand
from engine.compiler.adjoint_program import DerivedKernel, footprint, gradient
from engine.compiler.assemble_ptx import assemble, find_ptxas
from engine.compiler.kernel import Kernel
from engine.compiler.target_ptx import ARCHITECTURES, ptx_target
from engine.compiler.types import Table
from engine.context.tape import backward_is_off
from tests.gpu.project_kernels import project_kernels

SAMPLED = ("sm_75", "sm_90", "sm_120")
TABLE = Path(__file__).with_name("registers.json")
TABLE_ARCH = "sm_80"
SLACK = 4  # registers that another version of ptxas may add
GRADIENTS = 25  # kernels that gradients consist of, alike
EXPECTED = 50  # kernels, so that a search that finds nothing is not a success


def ptx_of(kernel: Kernel, types: tuple, arch: str) -> bytes:
    return kernel.compile(types, ptx_target(arch)).image


@pytest.mark.parametrize("arch", SAMPLED)
def test_every_kernel_compiles_for_a_sampled_architecture(arch: str) -> None:
    """Which one, its name decides; `test_the_full_matrix` does all of them."""
    kernels = project_kernels()
    assert len(kernels) >= EXPECTED
    for name, kernel, types in kernels:
        if arch == SAMPLED[zlib.crc32(name.encode()) % len(SAMPLED)]:
            text = ptx_of(kernel, types, arch).decode()
            assert f".target {arch}" in text and f".visible .entry {kernel.name}_kernel(" in text, name
            assert ".extern" not in text, f"{name} calls what a GPU does not have"


def derived(kernel: Kernel, types: tuple) -> list[DerivedKernel]:
    """What the gradient of a kernel by all its float arrays consists of.

    Nothing, if its backward pass is switched off or it writes floats to a table.
    """
    if backward_is_off(kernel):
        return []
    prints = footprint(kernel, types)
    tables = {i for i, t in enumerate(types) if isinstance(t, Table)}
    active = frozenset(key for key in prints.floats if key[0] not in tables)
    if not active or any(key[0] in tables for key in prints.writes & prints.floats):
        return []
    made = gradient(kernel, types, Demand(active, prints.writes & prints.reads))
    return [k for k in (made.backward, made.forward, made.count) if k is not None]


def test_every_gradient_compiles() -> None:
    """Backward, augmented and counting kernels, each for the architecture that its name decides."""
    count = 0
    for name, kernel, types in project_kernels():
        for one in derived(kernel, types):
            arch = SAMPLED[zlib.crc32(name.encode()) % len(SAMPLED)]
            text = one.compile(tuple(t for _, t in one.params), ptx_target(arch)).image.decode()
            assert f".visible .entry {one.name}_kernel(" in text and f".target {arch}" in text
            count += 1
    assert count >= GRADIENTS


@pytest.mark.soak
def test_the_full_matrix() -> None:
    for arch in ARCHITECTURES:
        for name, kernel, types in project_kernels():
            text = ptx_of(kernel, types, arch)
            for one in (text, *[k.compile(tuple(t for _, t in k.params), ptx_target(arch)).image
                                for k in derived(kernel, types)]):  # fmt: skip
                if find_ptxas() is not None:
                    assert not assemble(one, arch).spilled, (name, arch)


def measured() -> dict[str, list[int]]:
    """Registers and bytes of local memory of every kernel; spills are an error."""
    rows: dict[str, list[int]] = {}
    for name, kernel, types in project_kernels():
        made = assemble(ptx_of(kernel, types, TABLE_ARCH), TABLE_ARCH)
        assert not made.spilled, f"{name} spills {made.spilled} bytes"
        old = rows.get(name, [0, 0])  # a generic kernel has one row
        rows[name] = [max(old[0], made.registers), max(old[1], made.stack)]
    return rows


@pytest.mark.soak
@pytest.mark.skipif(find_ptxas() is None, reason="needs ptxas: pip install weft-engine[ptxas]")
def test_registers_are_those_of_the_table() -> None:
    """`python -m tests.gpu.test_project_ptx` writes the table anew after a change that is meant."""
    table, now = json.loads(TABLE.read_text()), measured()
    assert set(table) == set(now)
    worse = {name: (table[name], row) for name, row in now.items() if row[0] > table[name][0] + SLACK}
    assert not worse, f"kernels that need more registers than before: {worse}"


if __name__ == "__main__":
    rows = (f'  "{name}": {row}' for name, row in measured().items())
    TABLE.write_text("{\n" + ",\n".join(rows) + "\n}\n")
