"""The layers of the GPU: registers, spills, occupancy and instruction mix of a kernel, and what can run it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from engine.compiler.assemble_ptx import assemble, find_ptxas
from engine.compiler.kernel import Kernel
from engine.compiler.ptx_flow import flow
from engine.compiler.ptx_parser import Entry, parse
from engine.compiler.target_ptx import ARCHITECTURES, PTX_VERSIONS, REGISTERS, ptx_target
from engine.compiler.types import Type
from engine.errors import CompileError

ARCH = "sm_80"
BLOCK = 256  # threads, where the kernel does not say
GRAIN = 8  # registers of a thread are given out in steps of
PER_LIVE, FIXED = 0.98, 5.4  # what ptxas 13 uses for sm_80: within 2.2 registers of 15 kernels
_SPACES = ("global", "shared", "local", "param")
_MEMORY = ("ld", "st", "atom", "red", "ldu")


def registers(kernel: Kernel, types: tuple[Type, ...], arch: str = ARCH) -> dict[str, Any]:
    """Registers of a thread, bytes it spills and keeps in local memory, occupancy and instruction mix for `arch`.

    `source` is "ptxas", or "estimate" where that is not installed: 0.98 times the registers that are live at once, and
    5.4. A kernel that does not compile for a GPU has an `error` instead.
    """
    try:
        compiled = kernel.compile(types, ptx_target(arch))
    except CompileError as error:
        return {"arch": arch, "error": " ".join(str(error).split())}
    text, sharing = compiled.image.decode(), compiled.sharing
    module = parse(text)
    entry = next(e for e in module.functions.values() if e.is_kernel)
    live = most_live(entry)
    local = sum(v.size for v in entry.variables if v.space == "local")
    if find_ptxas() is not None:
        made = assemble(text, arch)
        row: dict[str, Any] = {"source": "ptxas", "registers": made.registers}
        row |= {"spilled": made.spilled, "local": made.stack}
    else:
        row = {"source": "estimate", "registers": round(PER_LIVE * live + FIXED), "spilled": 0, "local": local}
    block = entry.limits.get("maxntid", (BLOCK,))[0]
    shared = sum(v.size for v in (*module.variables.values(), *entry.variables) if v.space == "shared")
    if sharing is not None:
        block, shared = min(block, sharing.threads), sharing.bytes
    return {"arch": arch, **row, "live": live, "block": block, "shared": shared, "instructions": mix(entry),
            "occupancy": occupancy(int(row["registers"]), block, arch, shared)}  # fmt: skip


def occupancy(count: int, block: int, arch: str, shared: int = 0) -> float:
    """The share of an SM's warps that run together, as far as registers, warps and shared memory decide it."""
    limits = ARCHITECTURES[arch]
    warps = -(-block // 32)
    each = -(-max(count, 1) // GRAIN) * GRAIN * 32
    blocks = min(limits.blocks, limits.warps // warps, REGISTERS // (each * warps))
    if shared:
        blocks = min(blocks, limits.shared // shared)  # an SM has 1 KiB more than a block may use
    return round(blocks * warps / limits.warps, 3)


def mix(entry: Entry) -> dict[str, int]:
    """How many instructions there are of each kind."""
    counts: Counter[str] = Counter()
    for one in entry.body:
        if isinstance(one, str):
            continue
        name = one.parts[0]
        kind = "control" if name in ("bra", "ret", "exit", "setp", "brx") else "float"
        if name in _MEMORY:
            kind = f"{name}.{next((p for p in one.parts[1:] if p in _SPACES), 'generic')}"
        elif name in ("mov", "cvt", "cvta", "selp"):
            kind = "move"
        elif kind == "float" and one.parts[-1][:1] not in "f":
            kind = "integer"
        counts[kind] += 1
    return dict(counts.most_common())


def most_live(entry: Entry) -> int:
    """The most 32-bit registers that are live at once; predicates have their own."""
    found = flow(entry)

    def size(names: set[str]) -> int:
        widths = [entry.type_of(name) or ".pred" for name in names]
        return sum(0 if w.endswith("pred") else 2 if w.endswith("64") else 1 for w in widths)

    most = 0
    for block, after in zip(found.blocks, found.live_out, strict=True):
        live = set(after)
        most = max(most, size(live))
        for one in reversed((*block.body, *((block.ending,) if block.ending else ()))):
            if not one.guard:
                live -= set(one.writes)
            live |= {name for name in one.reads if entry.type_of(name) is not None}
            most = max(most, size(live))
    return most


def architectures(kernel: Kernel, types: tuple[Type, ...]) -> list[dict[str, Any]]:
    """For each architecture: whether the kernel compiles, its PTX version and the oldest driver that reads it."""
    rows: list[dict[str, Any]] = []
    for name, arch in ARCHITECTURES.items():
        major, minor = PTX_VERSIONS[arch.ptx]
        version = f"{arch.ptx // 10}.{arch.ptx % 10}"
        rows.append({"arch": name, "ptx": version, "driver": f"CUDA {major}.{minor}", "runs": True})
    try:
        kernel.compile(types, ptx_target(ARCH))
    except CompileError as error:
        for row in rows:
            row.update(runs=False, why=" ".join(str(error).split()))
    return rows
