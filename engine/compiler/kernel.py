"""`Kernel`: a Python function that is launched over a grid; compiled once per combination of argument types."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

from engine.compiler import types
from engine.compiler.frontend import lower_function
from engine.compiler.function import Func
from engine.compiler.ir import Function
from engine.compiler.pipeline import Options, compile_kernel, load_kernel
from engine.compiler.recall import note_key, recall, remember
from engine.compiler.shape import SHAPES
from engine.config import config
from engine.errors import CompileError

if TYPE_CHECKING:
    from engine.compiler.pipeline import Compiled


class Kernel:
    """What `@kernel` makes. The source is read at the first launch, not at decoration."""

    def __init__(self, fn: Callable[..., Any], shape: str = "auto"):
        functools.update_wrapper(self, fn)
        self.func = Func(fn)
        self.name = fn.__name__
        self.shape = shape
        self.instances: dict[Any, Compiled] = {}
        self.launchers: dict[Any, Any] = {}  # what context.launch made of them, by device and argument types
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError(f"kernel '{self.name}' is launched, not called: engine.launch({self.name}, dim, inputs=[…])")

    @functools.cached_property
    def params(self) -> list[tuple[str, types.Type]]:
        """Name and annotated type of each parameter; `Any` patterns take the type of the argument."""
        annotations = self.func.source.annotations
        found = []
        for parameter in self.func.source.parameters:
            if parameter.name not in annotations:
                raise CompileError(
                    f"kernel '{self.name}': parameter '{parameter.name}' has no type annotation",
                    filename=self.func.source.filename,
                    lineno=self.func.source.first_line,
                )
            found.append((parameter.name, annotations[parameter.name]))
        return found

    def lower(self, arg_types: Sequence[types.Type]) -> Function:
        """The HIR of the kernel for these argument types. Errors carry no frames of the compiler."""
        try:
            return lower_function(self.func, list(arg_types), is_kernel=True)
        except CompileError as error:
            raise error.with_traceback(None) from None

    def compile(self, arg_types: tuple[types.Type, ...], target: Any) -> Compiled:
        """Machine code for these argument types on `target`; made once."""
        key = (arg_types, target.key, config.cache_key())
        with self._lock:
            found = self.instances.get(key)
            if found is None:
                found = self.instances[key] = self._recalled(arg_types, target) or self._made(arg_types, target)
            return found

    def _recalled(self, arg_types: tuple[types.Type, ...], target: Any) -> Compiled | None:
        """The machine code of an earlier run, if all that it was made from is unchanged."""
        key = recall(self._note(arg_types, target))
        options = Options.from_config(shape=self.shape)
        return load_kernel(lambda: self.lower(arg_types), self.name, key, target, options) if key else None

    def _made(self, arg_types: tuple[types.Type, ...], target: Any) -> Compiled:
        hir = self.lower(arg_types)
        made = compile_kernel(hir, target, Options.from_config(shape=self.shape))
        remember(self._note(arg_types, target), hir, made.key)
        return made

    def _note(self, arg_types: tuple[types.Type, ...], target: Any) -> str:
        return note_key(self.func, arg_types, target.key, self.shape, repr(config.cache_key()))

    @property
    def stages(self) -> Any:
        """Products of the compiler ("hir", "mir", "llvm", "asm") of the kernel as last compiled."""
        if not self.instances:
            if not all(types.is_concrete(t) for _, t in self.params):
                raise CompileError(
                    f"kernel '{self.name}' is generic: launch it first, its types come from the arguments"
                )
            from engine.compiler.target_host import host_target

            return self.compile(tuple(t for _, t in self.params), host_target()).stages
        return next(reversed(self.instances.values())).stages


@overload
def kernel(fn: Callable[..., Any]) -> Kernel: ...
@overload
def kernel(*, shape: str = "auto") -> Callable[[Callable[..., Any]], Kernel]: ...
def kernel(fn: Callable[..., Any] | None = None, *, shape: str = "auto") -> Any:
    """Decorator: makes a Python function launchable over a grid of threads.

    Every parameter needs a type annotation; `Any` takes the type of the argument. shape: the form of CPU code,
    "lanes" (a vector of threads at a time), "thread" (one after the other) or "auto" (what the cost model expects to be
    faster). Results do not depend on it.
    """
    if shape not in SHAPES:
        raise ValueError(f"shape must be one of {', '.join(map(repr, SHAPES))}, got {shape!r}")
    return Kernel(fn, shape) if fn is not None else lambda f: Kernel(f, shape)
