"""PTX text on the emulated GPU: checked against its architecture, translated, its variables placed in memory."""

from __future__ import annotations

import ctypes
import functools
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.compiler import library
from engine.compiler.ptx_parser import PtxError
from engine.compiler.ptx_pointers import stored_parameters
from engine.context.emulator.memory import Memory
from engine.context.emulator.status import DriverFailure

if TYPE_CHECKING:
    from engine.compiler.emit_warp32 import WarpCode
    from engine.compiler.target_warp32 import LinkedCode, Translation

NEWEST_PTX = (9, 0)
STATIC_SHARED = 48 * 1024  # bytes of shared memory that a block has without asking for more
LOCAL_LIMIT = 512 * 1024  # bytes of a thread
PARAMETER_LIMIT = 32_764  # bytes of a kernel
LIBRARY = str(Path(library.__file__).parent)  # a debugger does not step into the language's own functions


@dataclass(eq=False)
class LoadedFunction:
    """A kernel on the emulated GPU; its machine code is made at the first launch."""

    name: str
    module: LoadedModule
    code: WarpCode
    dynamic_shared: int = STATIC_SHARED  # the most that a launch may ask for
    linked: LinkedCode | None = None
    blocks: dict[tuple[int, int, int, int], Any] = field(default_factory=dict)  # what `grid` keeps for each block shape
    forms: dict[tuple[str, tuple[int, int]], LoadedFunction] = field(default_factory=dict)  # other code

    @functools.cached_property
    def stored(self) -> set[tuple[str, int]] | None:
        """Where its parameters hold pointers that it stores through; None: it may store anywhere."""
        return stored_parameters(self.module.translation.module.functions[self.name])

    def in_form(self, schedule: str, head: tuple[int, int] = (0, 0)) -> LoadedFunction:
        """The kernel with code that runs lanes in this order, and lets a debugger stop (`CodeForm.head`)."""
        from engine.compiler.emit_warp32 import CodeForm, emit_warp

        if schedule == "loop-aware" and not head[1]:
            return self
        found = self.forms.get((schedule, head))
        if found is None:
            of = self.module.translation
            quiet = frozenset(number for number, file in of.module.files.items() if file.startswith(LIBRARY))
            form = CodeForm(schedule, head, quiet)
            code = emit_warp(of.module, of.module.functions[self.name], of.offsets, form)
            found = LoadedFunction(self.name, self.module, code, self.dynamic_shared)
            self.forms[schedule, head] = found
        found.dynamic_shared = self.dynamic_shared
        return found


@dataclass(eq=False)
class LoadedModule:
    """A PTX file on the emulated GPU."""

    translation: Translation
    functions: dict[str, LoadedFunction]
    variables: dict[str, tuple[int, int]]  # name → (address, size)
    base: int  # address of the block that the variables lie in
    unloaded: bool = False

    def source_of(self, loc: tuple[int, int]) -> tuple[str, int]:
        """File and line of a `.loc`."""
        return self.translation.module.files.get(loc[0], ""), loc[1]


def load(image: str, arch: int, memory: Memory) -> LoadedModule:
    """A module, ready to launch. Raises DriverFailure with the status of the real driver, and the log."""
    from engine.compiler.target_warp32 import translate  # needs LLVM

    head = re.search(r"^\s*\.version\s+(\d+)\.(\d+)", image, re.MULTILINE)
    if head is not None and (int(head[1]), int(head[2])) > NEWEST_PTX:
        raise DriverFailure(
            "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
            f"the PTX is version {head[1]}.{head[2]}, the newest that is read is {NEWEST_PTX[0]}.{NEWEST_PTX[1]}",
        )
    try:
        translation = translate(image)
    except PtxError as error:
        raise DriverFailure("CUDA_ERROR_INVALID_PTX", str(error)) from None
    target = re.match(r"sm_(\d+)", translation.target)
    if target is None:
        raise DriverFailure("CUDA_ERROR_INVALID_PTX", f"unknown target '{translation.target}'")
    if int(target[1]) > arch:
        raise DriverFailure("CUDA_ERROR_NO_BINARY_FOR_GPU", f"the PTX is for sm_{target[1]}, this GPU is an sm_{arch}")
    for name, code in translation.kernels.items():
        sizes = (("shared", code.shared_size, STATIC_SHARED), ("local", code.local_size, LOCAL_LIMIT),
                 ("parameter", code.params_size, PARAMETER_LIMIT))  # fmt: skip
        for space, size, limit in sizes:
            if size > limit:
                text = f"kernel {name} declares {size} bytes of {space} memory, the limit is {limit}"
                raise DriverFailure("CUDA_ERROR_INVALID_PTX", text)
    return _placed(translation, memory)


def _placed(translation: Translation, memory: Memory) -> LoadedModule:
    """The module with its variables in memory."""
    sizes = {v.name: v.size for v in translation.variables}
    base, places = memory.place(translation.offsets, sizes, translation.size)
    for variable in translation.variables:
        address = places[variable.name]
        ctypes.memset(address, 0, variable.size)
        ctypes.memmove(address, variable.initial, len(variable.initial))
        for offset, name in variable.symbols:
            if name not in places:
                raise DriverFailure("CUDA_ERROR_INVALID_PTX", f"'{variable.name}' refers to unknown '{name}'")
            ctypes.c_uint64.from_address(address + offset).value = places[name]
    variables = {name: (address, sizes[name]) for name, address in places.items()}
    module = LoadedModule(translation, {}, variables, base)
    for name, code in translation.kernels.items():
        module.functions[name] = LoadedFunction(name, module, code)
    return module


def unload(module: LoadedModule, memory: Memory) -> None:
    """Takes the module's variables out of memory; its functions can no longer be launched."""
    module.unloaded = True
    for address, _ in module.variables.values():
        memory.free(address, ("variable",))
