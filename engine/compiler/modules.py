"""Modules of kernels: a name, its kernels and their options. The kernel, not the module, is compiled and cached."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from engine.config import available_threads, config
from engine.errors import CompileError

if TYPE_CHECKING:
    from engine.compiler.function import Func
    from engine.compiler.kernel import Kernel


class _Options(dict[str, Any]):
    """Options as they hold now; assigning one sets it for the module."""

    def __init__(self, values: dict[str, Any], own: dict[str, Any]):
        super().__init__(values)
        self._own = own

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self._own[name] = value


def check_unroll(options: dict[str, Any]) -> None:
    """Refuses an option `max_unroll` that is no number of rounds."""
    limit = options.get("max_unroll", 0)
    if not isinstance(limit, int) or isinstance(limit, bool) or not 0 <= limit <= 1024:
        raise ValueError(f"max_unroll must be an integer from 0 to 1024, got {limit!r}")


class Module:
    """The kernels and functions that one Python module has defined."""

    def __init__(self, name: str):
        self.name = name
        self.kernels: dict[str, Kernel] = {}
        self.functions: dict[str, Func] = {}
        self._options: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"<module of kernels {self.name}>"

    @property
    def options(self) -> dict[str, Any]:
        """What holds for the kernels of the module unless they say otherwise."""
        defaults = {"enable_backward": config.enable_backward, "fast_math": config.fast_math, "mode": config.mode,
                    "max_unroll": config.max_unroll, "block_dim": 256, "cuda_output": None, "fuse_fp": config.fma,
                    "lineinfo": config.lineinfo}  # fmt: skip
        return _Options({**defaults, **self._options}, self._options)

    def set_options(self, options: dict[str, Any]) -> None:
        check_unroll(options)
        self._options.update(options)
        if "max_unroll" in options:
            self.unload()

    def load(self, device: Any = None, block_dim: int | None = None) -> bool:
        """Compiles every kernel of the module whose argument types are known. Whether none of them is broken.

        A broken kernel raises its error when it is launched; it does not keep others from being loaded.
        """
        return not preload(list(self.kernels.values()))

    def hash_module(self) -> str:
        """A hash that changes when the code of one of the module's kernels does."""
        from engine.compiler.cache import digest
        from engine.compiler.pipeline import function_digest

        parts = []
        for key, kernel in sorted(self.kernels.items()):
            for one in (kernel, *kernel.overloads.values()):
                one.func.specialisations.clear()
                try:
                    if not one.is_generic:
                        parts += [key, function_digest(one.lower([t for _, t in one.params]))]
                except CompileError as error:  # a broken kernel does not keep the others from being told apart
                    parts += [key, str(error)]
        return digest(*parts)

    def unload(self) -> None:
        """Forgets what was compiled."""
        for kernel in self.kernels.values():
            kernel.forget()


MODULES: dict[str, Module] = {}


def get_module(name: str | None) -> Module:
    """The module of kernels called `name`, made when first asked for; None: of code that belongs to no module."""
    name = name or "<no module>"
    found = MODULES.get(name)
    if found is None:
        found = MODULES[name] = Module(name)
    return found


def calling_module(depth: int = 2) -> Module:
    """The module of kernels of whoever called the function that calls this."""
    return get_module(sys._getframe(depth).f_globals.get("__name__", "__main__"))


def _chosen(module: Any, depth: int) -> Module:
    if module is None:
        return calling_module(depth + 1)
    return module if isinstance(module, Module) else get_module(getattr(module, "__name__", module))


def set_module_options(options: dict[str, Any], module: Any = None) -> None:
    """Sets options for the kernels of the calling module, or of `module`."""
    _chosen(module, 2).set_options(options)


def get_module_options(module: Any = None) -> dict[str, Any]:
    """The options of the calling module, or of `module`."""
    return _chosen(module, 2).options


def preload(kernels: Sequence[Kernel]) -> list[CompileError]:
    """Compiles kernels whose argument types are known, on as many threads as the process may use; what is broken.

    LLVM, which takes most of the time, works outside the interpreter's lock. Raises nothing for a broken kernel.
    """

    def one(kernel: Kernel) -> CompileError | None:
        try:
            kernel.preload()
        except CompileError as error:
            return error
        return None

    from concurrent.futures import ThreadPoolExecutor  # loads logging: 9 ms of an import that seldom needs it

    with ThreadPoolExecutor(available_threads(), thread_name_prefix="weft-compile") as pool:
        return [error for error in pool.map(one, kernels) if error is not None]


def load_module(module: Any = None, device: Any = None, block_dim: int | None = None, recursive: bool = False) -> None:
    """Compiles the kernels of the calling module, or of `module`, before they are launched."""
    found = _chosen(module, 2)
    names = [n for n in MODULES if n == found.name or (recursive and n.startswith(found.name + "."))]
    preload([kernel for name in names for kernel in MODULES[name].kernels.values()])


def force_load(device: Any = None, modules: Any = None, block_dim: int | None = None) -> None:
    """Compiles kernels before they are launched, side by side: those of all modules, or of `modules`.

    modules: modules, names of modules, or kernels. A launch with arrays without gaps then finds its code ready; kernels
    whose argument types are not known yet are left out. A broken kernel raises its error when it is launched.
    """
    kernels: list[Kernel] = []
    for item in list(MODULES.values()) if modules is None else modules:
        kernels += [item] if hasattr(item, "preload") else list(_chosen(item, 2).kernels.values())  # type: ignore[list-item]
    preload(kernels)
