"""Compiles kernels ahead of time: object code or PTX as files, and a manifest that says how to call them.

    kernels → HIR → MIR → LLVM text → <name>.<target>.ptx | <name>.<target>.o, and manifest.json
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from engine.compiler import types
from engine.compiler.emit_ptx import HEADER_BYTES, PARAMETER_BYTES, Sharing, entry_name
from engine.compiler.emit_thread import ABI, abi
from engine.compiler.kernel import Kernel
from engine.compiler.modules import MODULES, Module
from engine.compiler.ops import LAUNCH
from engine.compiler.pipeline import Options, Stages, symbol_of
from engine.compiler.target_amd import AmdTarget, amd_target
from engine.compiler.target_host import HostTarget, host_target
from engine.compiler.target_ptx import PtxTarget, ptx_target
from engine.errors import CompileError
from engine.replace_file import replacing

FORMAT = 1  # of the manifest
MANIFEST = "manifest.json"
OPTIONS = ("launch_bounds", "max_registers", "grid_stride", "lineinfo")


@dataclass(frozen=True)
class Built:
    """One file that `build` wrote, as the manifest describes it. Offsets are bytes from the start of the block.

    `slots` are (offset, type, parameter, path in it) of each scalar and pointer. The block is the entry's parameter; it
    is passed by its address if `by_address`. `ptx` and `driver`, its version and the oldest CUDA version that
    reads the file, are "" where it is no PTX. `sharing` is not None of kernels with tiles: a
    block of any size runs what is one thread of the launch, with at most so many threads that have work; where it
    takes more than 48 KiB of shared memory, they are given with the launch.
    """

    kernel: str
    target: str
    file: str
    entry: str
    block: int
    by_address: bool
    slots: tuple[tuple[int, str, str, str], ...]
    ptx: str
    driver: str
    sharing: Sharing | None = None


def build(kernels: Any, target: str | Sequence[str] = "ptx", folder: Any = ".", *, ptx_version: str = "",
          dense: bool = False, **options: Any) -> list[Built]:  # fmt: skip
    """Compile kernels into files in `folder`, which is made where it is missing; returns what was written.

    kernels: a kernel, a sequence of them, or a module, by itself or by its name, for all of its kernels. Of a generic
    kernel its overloads are compiled. target: "cpu" (object code for this processor), "sm_75" … "sm_120", "ptx" (the
    architecture of `config.ptx_arch`), "gfx906" … "gfx1201" (code objects for AMD GPUs, to be linked by `ld.lld
    -shared`), "amdgcn" (gfx90a), or several of these. ptx_version: as "7.8", else the lowest. dense: the code
    is for arrays without gaps along their last dimension only. options: launch_bounds, max_registers, grid_stride and
    lineinfo, in place of the kernel's own.

    Each file appears whole or not at all, and the manifest last. Raises CompileError for a kernel that cannot be
    compiled (then no file is written), ConfigError for an unknown architecture or version, TypeError for an unknown
    option, ValueError for a value that an option does not take.
    """
    unknown = [name for name in options if name not in OPTIONS]
    if unknown:
        raise TypeError(f"build() has no option '{unknown[0]}'; there are {', '.join(OPTIONS)}")
    names = [target] if isinstance(target, str) else list(target)
    targets = [_target(name, ptx_version) for name in names]
    found = list(_kernels(kernels))
    made = [_built(name, kernel, t, dense, options) for name, kernel in _named(found) for t in targets]
    where = Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    for row, image in made:
        _write(where / row.file, image)
    rows = [row for row, _ in made]
    manifest = {"format": FORMAT, "kernels": [asdict(row) for row in rows]}
    _write(where / MANIFEST, json.dumps(manifest, indent=1).encode())
    return rows


def _target(name: str, ptx_version: str) -> HostTarget | PtxTarget | AmdTarget:
    if name == "cpu":
        return host_target()
    if name == "amdgcn" or name.startswith("gfx"):
        return amd_target() if name == "amdgcn" else amd_target(name)
    return ptx_target("" if name == "ptx" else name, ptx_version)


def _write(path: Path, data: bytes) -> None:
    with replacing(path) as beside:
        beside.write_bytes(data)


def _kernels(given: Any) -> Iterator[Kernel]:
    """The kernels that are meant, generic ones as their overloads."""
    if isinstance(given, Kernel):
        if given.is_generic and not given.overloads:
            raise CompileError(f"kernel '{given.name}' is generic: engine.overload() it for the types that are wanted")
        yield from given.overloads.values() if given.is_generic else [given]
    elif isinstance(given, Module | ModuleType | str):
        name = given if isinstance(given, str) else given.name if isinstance(given, Module) else given.__name__
        if name not in MODULES:
            raise CompileError(f"there is no module of kernels called '{name}'")
        for kernel in MODULES[name].kernels.values():
            yield from _kernels(kernel)
    else:
        for one in given:
            yield from _kernels(one)


def _named(kernels: list[Kernel]) -> Iterator[tuple[str, Kernel]]:
    """Each kernel with a name that no other has: its own, or with its module and a number where several share it."""
    names = Counter(kernel.name for kernel in kernels)
    seen: Counter[str] = Counter()
    for kernel in kernels:
        name = kernel.name if names[kernel.name] == 1 else f"{kernel.module.name}.{kernel.name}"
        seen[name] += 1
        yield name if seen[name] == 1 else f"{name}.{seen[name]}", kernel


def _built(name: str, kernel: Kernel, target: Any, dense: bool, given: dict[str, Any]) -> tuple[Built, bytes]:
    """One kernel for one target: the row of the manifest, and the code."""
    kinds = tuple(t for _, t in kernel.params)
    gapless = tuple(i for i, t in enumerate(kinds) if dense and isinstance(t, types.Array))
    options = Options.from_config(gapless, kernel.shape, {**kernel.options, **given})
    stages = Stages(lambda: kernel.lower(kinds), kernel.name, target, options)
    image = target.emit(stages.llvm(target), options.opt_level)
    slots = _slots(abi(stages.mir), [n for n, _ in kernel.params])
    block = HEADER_BYTES + abi(stages.mir).size
    if isinstance(target, AmdTarget):
        row = Built(name, target.arch, f"{name}.{target.arch}.o", entry_name(kernel.name), block,
                    block > PARAMETER_BYTES, slots, "", "")  # fmt: skip
        return row, image
    if not isinstance(target, PtxTarget):
        return Built(name, "cpu", f"{name}.cpu.o", symbol_of(kernel.name), block, True, slots, "", ""), image
    version, driver = f"{target.version // 10}.{target.version % 10}", "{}.{}".format(*target.driver)
    shared_out = stages.shared_out(target)
    row = Built(name, target.arch, f"{name}.{target.arch}.ptx", entry_name(kernel.name), block, block > PARAMETER_BYTES,
                slots, version, driver, shared_out[1] if shared_out else None)  # fmt: skip
    return row, image


def _slots(layout: ABI, names: list[str]) -> tuple[tuple[int, str, str, str], ...]:
    return tuple(
        (HEADER_BYTES + s.offset, repr(s.type), "launch" if s.param == LAUNCH else names[s.param],
         ".".join(map(str, s.path)))
        for s in layout.slots
    )  # fmt: skip
