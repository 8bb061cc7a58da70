"""NVIDIA GPUs as targets: LLVM text to PTX text. No GPU and no CUDA installation is needed.

A target is an architecture and a PTX version. The version is the lowest that LLVM writes for the architecture, since
every version asks for a driver that is at least as new; `config.ptx_version` raises it.
"""

from __future__ import annotations

import functools
import re
import threading
from dataclasses import dataclass
from typing import Any

import llvmlite

from engine.compiler import llvm
from engine.compiler.cache import digest
from engine.config import config
from engine.errors import ConfigError

TRIPLE = "nvptx64-nvidia-cuda"


@dataclass(frozen=True)
class Architecture:
    """What an architecture has. Limits from the CUDA programming guide, "Compute Capabilities"."""

    name: str
    ptx: int  # the lowest PTX version that knows it, as 10 × major + minor
    shared: int  # bytes of shared memory that one block may use, of which 48 KiB without asking
    blocks: int  # blocks that an SM holds
    warps: int  # warps that an SM holds


ARCHITECTURES = {
    row.name: row
    for row in (
        Architecture("sm_75", 63, 65_536, 16, 32),
        Architecture("sm_80", 70, 166_912, 32, 64),
        Architecture("sm_86", 71, 101_376, 16, 48),
        Architecture("sm_87", 74, 166_912, 16, 48),
        Architecture("sm_89", 78, 101_376, 24, 48),
        Architecture("sm_90", 78, 232_448, 32, 64),
        Architecture("sm_100", 86, 232_448, 32, 64),
        Architecture("sm_120", 87, 101_376, 24, 48),
    )
}
# the driver's CUDA version that first reads a PTX version (PTX ISA, "Release Notes")
PTX_VERSIONS = {
    63: (10, 0), 64: (10, 1), 65: (10, 2), 70: (11, 0), 71: (11, 1), 72: (11, 2), 73: (11, 3), 74: (11, 4), 75: (11, 5),
    76: (11, 6), 77: (11, 7), 78: (11, 8), 80: (12, 0), 81: (12, 1), 82: (12, 2), 83: (12, 3), 84: (12, 4), 85: (12, 5),
    86: (12, 7), 87: (12, 8), 88: (12, 9), 90: (13, 0),
}  # fmt: skip
MAX_THREADS = 1024  # of a block, on every architecture
REGISTERS = 65_536  # 32-bit registers of an SM, on every architecture
STATIC_SHARED = 49_152  # bytes of shared memory that a kernel may declare


def parse_version(text: str | int) -> int:
    """A PTX version as 10 × major + minor, from "7.8", "78" or 78; 0 or "" means "the lowest".

    Raises ConfigError for one that LLVM does not write (it would silently take another one).
    """
    if text in ("", 0, "0"):
        return 0
    match = re.fullmatch(r"(\d+)\.(\d)|(\d\d)", str(text))
    number = 0 if match is None else int(match[3] or match[1] + match[2])
    if number not in PTX_VERSIONS:
        known = ", ".join(f"{n // 10}.{n % 10}" for n in PTX_VERSIONS)
        raise ConfigError("ptx_version", f"expected one of {known}, got {text!r}")
    return number


def architecture(name: str) -> Architecture:
    """The architecture of this name. Raises ConfigError for an unknown one."""
    found = ARCHITECTURES.get(name)
    if found is None:
        raise ConfigError("ptx_arch", f"expected one of {', '.join(ARCHITECTURES)}, got {name!r}")
    return found


class PtxTarget:
    """An NVIDIA architecture. `key` names everything about it that the PTX text depends on."""

    name = "ptx"
    lanes = 1  # PTX has the thread shape: the hardware makes vectors of it

    def __init__(self, arch: str, version: int = 0):
        self.architecture = architecture(arch)
        self.arch = arch
        if version and version < self.architecture.ptx:
            needed = self.architecture.ptx
            raise ConfigError("ptx_version", f"{arch} needs PTX {needed // 10}.{needed % 10} or newer, got "
                                             f"{version // 10}.{version % 10}")  # fmt: skip
        self.version = version or self.architecture.ptx
        self.key = digest(TRIPLE, arch, str(self.version), llvmlite.__version__)
        self._threads = threading.local()

    def __repr__(self) -> str:
        return f"{self.arch}, PTX {self.version // 10}.{self.version % 10}"

    @property
    def driver(self) -> tuple[int, int]:
        """The oldest CUDA version, (major, minor), whose driver reads this target's PTX."""
        return PTX_VERSIONS[self.version]

    def machine(self, opt_level: int) -> Any:
        """This Python thread's TargetMachine: LLVM's is not safe to share."""
        machines = self._threads.__dict__.setdefault("machines", {})
        if opt_level not in machines:
            _initialize()
            target = llvm.Target.from_triple(TRIPLE)
            machines[opt_level] = target.create_target_machine(
                cpu=self.arch, features=f"+ptx{self.version}", opt=opt_level
            )
        return machines[opt_level]

    def assembly(self, text: str, opt_level: int = 2, vectors: str = "none") -> str:
        """PTX of an LLVM module given as text, for this target, which makes no vectors of straight code."""
        machine = self.machine(opt_level)
        module = llvm.parse_assembly(text, context=llvm.create_context())
        module.triple, module.data_layout = TRIPLE, str(machine.target_data)
        module.verify()
        tuning = llvm.create_pipeline_tuning_options(speed_level=opt_level)
        tuning.loop_vectorization = tuning.slp_vectorization = False
        tuning.loop_unrolling = opt_level > 1
        builder = llvm.create_pass_builder(machine, tuning)
        builder.getModulePassManager().run(module, builder)
        return str(machine.emit_assembly(module))

    def emit(self, text: str, opt_level: int = 2, vectors: str = "none") -> bytes:
        """The same as bytes: what a driver loads."""
        return self.assembly(text, opt_level).encode()


@functools.cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@functools.cache
def _target(arch: str, version: int) -> PtxTarget:
    return PtxTarget(arch, version)


def newest_for(capability: int) -> str:
    """The newest known architecture whose PTX a GPU of this compute capability (10·major + minor) runs.

    PTX runs on every later GPU. Raises ConfigError for a GPU that is older than all of them.
    """
    known = [name for name in ARCHITECTURES if int(name[3:]) <= capability]
    if not known:
        least = next(iter(ARCHITECTURES))
        raise ConfigError("ptx_arch", f"{least} is the oldest architecture, the GPU is sm_{capability}")
    return max(known, key=lambda name: int(name[3:]))


def ptx_target(arch: str = "", version: str | int = "") -> PtxTarget:
    """The target of an architecture and PTX version; `config.ptx_arch` and `config.ptx_version` where none is given.

    A configured version that is too old for the architecture counts as not given. Raises ConfigError.
    """
    arch = arch or config.ptx_arch
    chosen = parse_version(version)
    if not chosen:
        chosen = parse_version(config.ptx_version)
        chosen = chosen if chosen >= architecture(arch).ptx else 0
    return _target(arch, chosen)
