"""AMD GPUs as targets, compile-only: LLVM text to a relocatable code object (ELF, `amdgcn-amd-amdhsa`).

`ld.lld -shared` makes of it what the HSA runtime loads. No GPU and no ROCm installation is needed.
"""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass
from typing import Any

import llvmlite

from engine.compiler import llvm
from engine.compiler.cache import digest
from engine.errors import ConfigError

TRIPLE = "amdgcn-amd-amdhsa"


@dataclass(frozen=True)
class AmdArchitecture:
    """What an architecture has, from LLVM's "User Guide for AMDGPU Backend"."""

    name: str
    wave: int  # lanes of a wavefront, as LLVM compiles for it unless told otherwise


AMD_ARCHITECTURES = {
    row.name: row
    for row in (
        AmdArchitecture("gfx906", 64),
        AmdArchitecture("gfx908", 64),
        AmdArchitecture("gfx90a", 64),
        AmdArchitecture("gfx942", 64),
        AmdArchitecture("gfx1030", 32),
        AmdArchitecture("gfx1100", 32),
        AmdArchitecture("gfx1201", 32),
    )
}
DEFAULT_AMD = "gfx90a"
# Not on these GPUs, or not in a way that is sure to end: op → what the user called it
MISSING = {"print": "print()", "fault": "a check of checked mode"}
PRIVATE_BYTES = 131_056  # of a thread's own arrays: LLVM ends the process for more


class AmdTarget:
    """An AMD architecture. `key` names everything about it that the code depends on."""

    name = "amdgcn"
    lanes = 1  # as for PTX, the hardware makes the vectors

    def __init__(self, arch: str):
        if arch not in AMD_ARCHITECTURES:
            raise ConfigError("target", f"expected one of {', '.join(AMD_ARCHITECTURES)}, got {arch!r}")
        self.architecture = AMD_ARCHITECTURES[arch]
        self.arch = arch
        self.key = digest(TRIPLE, arch, llvmlite.__version__)
        self._threads = threading.local()

    def __repr__(self) -> str:
        return self.arch

    def machine(self, opt_level: int) -> Any:
        """This Python thread's TargetMachine: LLVM's is not safe to share."""
        machines = self._threads.__dict__.setdefault("machines", {})
        if opt_level not in machines:
            _initialize()
            target = llvm.Target.from_triple(TRIPLE)
            machines[opt_level] = target.create_target_machine(cpu=self.arch, features="", opt=opt_level, reloc="pic")
        return machines[opt_level]

    def _optimized(self, text: str, opt_level: int) -> tuple[Any, Any]:
        machine = self.machine(opt_level)
        module = llvm.parse_assembly(text, context=llvm.create_context())
        module.triple, module.data_layout = TRIPLE, str(machine.target_data)
        module.verify()
        tuning = llvm.create_pipeline_tuning_options(speed_level=opt_level)
        tuning.loop_vectorization = tuning.slp_vectorization = False
        tuning.loop_unrolling = opt_level > 1
        builder = llvm.create_pass_builder(machine, tuning)
        builder.getModulePassManager().run(module, builder)
        return module, machine

    def assembly(self, text: str, opt_level: int = 2, vectors: str = "none") -> str:
        """Assembly of an LLVM module given as text, for people."""
        module, machine = self._optimized(text, opt_level)
        return str(machine.emit_assembly(module))

    def emit(self, text: str, opt_level: int = 2, vectors: str = "none") -> bytes:
        """Its code object."""
        module, machine = self._optimized(text, opt_level)
        return bytes(machine.emit_object(module))


@functools.cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@functools.cache
def amd_target(arch: str = DEFAULT_AMD) -> AmdTarget:
    """The target of an architecture. Raises ConfigError for an unknown one."""
    return AmdTarget(arch)
