"""`Kernel`: a Python function that is launched over a grid; compiled once per combination of argument types."""

from __future__ import annotations

import ast
import functools
import sys
import threading
import time
import typing
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from engine.compiler import types
from engine.compiler.diagnostics import compile_error
from engine.compiler.frontend import lower_function
from engine.compiler.function import Func
from engine.compiler.ir import Function
from engine.compiler.modules import Module, check_unroll, get_module
from engine.compiler.pipeline import Options, Stages, compile_kernel, load_kernel, no_collection, watched
from engine.compiler.recall import note_key, recall, remember
from engine.compiler.shape import SHAPES
from engine.compiler.verify import verify
from engine.config import config
from engine.errors import CompileError, InternalError

if TYPE_CHECKING:
    from engine.compiler.pipeline import Compiled


class Kernel:
    """What `@kernel` makes. The source is read at the first launch, not at decoration.

    key: its name. module: the module of kernels that it belongs to. options: see `kernel`. fixed: parameter types that
    take the place of the annotations (see `overload`). code_transformers: rewrite the syntax tree before it is typed.
    """

    def __init__(self, func: Callable[..., Any], key: str | None = None, module: Any = None,
                 options: dict[str, Any] | None = None, shape: str = "auto",
                 fixed: Sequence[types.Type] | None = None,
                 code_transformers: Sequence[ast.NodeTransformer] = (), front_end: str = "python"):  # fmt: skip
        functools.update_wrapper(self, func)
        self.fn = func
        self.func = Func(func)
        self.func.source.transformers = tuple(code_transformers)
        self.name = self.key = key or func.__name__
        self.module = module if isinstance(module, Module) else get_module(_module_name(func, module))
        self.options = dict(options or {})
        self.shape = shape
        self.front_end = front_end
        self.fixed = fixed
        self.overloads: dict[tuple[types.Type, ...], Kernel] = {}
        self.instances: dict[Any, Compiled] = {}
        self.launchers: dict[Any, Any] = {}  # what context.launch made of them, by device and argument types
        self._lowered: dict[Any, Function] = {}  # by argument types and what else decides the HIR
        self._stages: dict[Any, Stages] = {}  # of the kernel while it was not compiled, by configuration
        self.edited_ptx = ""  # takes the place of the compiler's PTX (see `with_ptx`)
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
                source = self.func.source
                raise compile_error(source, source.parameter(parameter.name),
                                    f"kernel '{self.name}': parameter '{parameter.name}' has no type annotation",
                                    f"as in {parameter.name}: float")  # fmt: skip
            found.append((parameter.name, annotations[parameter.name]))
        if self.fixed is not None:
            found = [(name, t) for (name, _), t in zip(found, self.fixed, strict=True)]
        return found

    @functools.cached_property
    def optional(self) -> frozenset[str]:
        """Array parameters that the kernel tests for truth: None may be passed for them."""
        found: set[str] = set()
        for node in ast.walk(self.func.source.tree):
            tests: list[ast.expr] = []
            if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
                tests = [node.test]
            elif isinstance(node, ast.BoolOp):
                tests = node.values
            elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
                tests = [node.operand]
            found.update(test.id for test in tests if isinstance(test, ast.Name))
        return frozenset(found)

    @property
    def is_generic(self) -> bool:
        """Whether some parameter takes its type from the argument."""
        return not all(types.is_concrete(t) for _, t in self.params)

    def specialised(self, arg_types: Sequence[types.Type]) -> Kernel:
        """The kernel with these parameter types, made once."""
        key = tuple(arg_types)
        if key not in self.overloads:
            self.overloads[key] = Kernel(self.fn, self.key, self.module, self.options, self.shape, key,
                                         front_end=self.front_end)  # fmt: skip
        return self.overloads[key]

    def preload(self) -> None:
        """Compiles the kernel, or its overloads, where the argument types are known: for arrays without gaps."""
        from engine.compiler.target_host import host_target

        for one in (self, *self.overloads.values()):
            if not one.is_generic:
                arg_types = tuple(t for _, t in one.params)
                dense = tuple(i for i, t in enumerate(arg_types) if type(t) is types.Array)
                one.compile(arg_types, host_target(), dense)

    def forget(self) -> None:
        """Drops what was compiled."""
        self.instances.clear()
        self._lowered.clear()
        self._stages.clear()
        self.launchers.clear()
        self.func.specialisations.clear()

    def lower(self, arg_types: Sequence[types.Type]) -> Function:
        """The HIR of the kernel for these argument types. Errors carry no frames of the compiler."""
        try:
            if self.front_end != "python":
                return self._lowered_elsewhere(list(arg_types))
            observe = bool(self.options.get("observe"))
            return lower_function(self.func, list(arg_types), is_kernel=True, observe=observe,
                                  max_unroll=self.max_unroll)  # fmt: skip
        except CompileError as error:
            raise error.with_traceback(None) from None

    @property
    def max_unroll(self) -> int:
        """Loops of so many constant rounds are taken apart: the option of the kernel, of its module, or the knob."""
        limit: int = self.options.get("max_unroll", self.module.options["max_unroll"])
        return limit

    def _lowered_elsewhere(self, arg_types: list[types.Type]) -> Function:
        """The HIR that a plugin's front end makes; nobody else has looked at it, so it is verified here."""
        from engine.plugin import front_ends  # looks for installed packages, which takes time to import

        place: dict[str, Any] = {"filename": self.func.source.filename, "lineno": self.func.source.first_line}
        made = front_ends.get(self.front_end)(self.func, arg_types, is_kernel=True)
        if not isinstance(made, Function):
            raise CompileError(f"the front end '{self.front_end}' gave {type(made).__name__}, not a Function", **place)
        try:
            verify(made, "hir")
        except InternalError as error:
            raise CompileError(f"the front end '{self.front_end}' made wrong code: {error}", **place) from None
        return made

    def hir(self, arg_types: tuple[types.Type, ...]) -> Function:
        """What `lower` makes, made once: the kernel and its gradient begin with it."""
        key = (arg_types, config.cache_key(), Func.gradients, self.max_unroll)
        if key not in self._lowered:
            self._lowered[key] = self.lower(arg_types)
        return self._lowered[key]

    def compile(self, arg_types: tuple[types.Type, ...], target: Any, dense: tuple[int, ...] = (),
                shape: str = "") -> Compiled:  # fmt: skip
        """Machine code for these argument types on `target`; made once.

        `dense` are the array parameters whose last dimension has no gaps; the code holds for such arrays only. `shape`
        overrides what the kernel asks for.
        """
        key = (arg_types, target.key, config.cache_key(), dense, shape)
        with self._lock:
            found = self.instances.pop(key, None)
            if found is None:
                options = Options.from_config(dense, shape or self.shape, self.options)
                found = self._recalled(arg_types, target, options) or self._made(arg_types, target, options)
                found = watched(found, target)
            self.instances[key] = found  # at the end: `stages` are those of the last one
            return found

    def _recalled(self, arg_types: tuple[types.Type, ...], target: Any, options: Options) -> Compiled | None:
        """The machine code of an earlier run, if all that it was made from is unchanged."""
        if self.func.source.transformers or self.front_end != "python":  # what they do cannot be told
            return None
        key = recall(self._note(arg_types, target, options))
        return load_kernel(lambda: self.hir(arg_types), self.name, key, target, options) if key else None

    def _made(self, arg_types: tuple[types.Type, ...], target: Any, options: Options) -> Compiled:
        start = time.perf_counter()
        with no_collection():
            hir = self.hir(arg_types)
            front_end = time.perf_counter() - start
            made = compile_kernel(hir, target, options)
        made.times = {"front end": front_end, **made.times}
        if not self.func.source.transformers and self.front_end == "python":
            remember(self._note(arg_types, target, options), hir, made.key)
        return made

    def _note(self, arg_types: tuple[types.Type, ...], target: Any, options: Options) -> str:
        return note_key(self.func, arg_types, target.key, repr(options), repr(config.cache_key()),
                        str(self.max_unroll))  # fmt: skip

    def _looked_at(self) -> Stages:
        """The stages of a kernel that was not compiled: only what is asked for is made (it may be for GPUs only)."""
        from engine.compiler.target_host import host_target

        key = config.cache_key()
        if key not in self._stages:
            options = Options.from_config((), self.shape, self.options)
            kinds = tuple(t for _, t in self.params)
            self._stages[key] = Stages(functools.cache(lambda: self.lower(kinds)), self.name, host_target(), options)
        return self._stages[key]

    @property
    def stages(self) -> Any:
        """Products of the compiler ("hir", "mir", "llvm", "asm", "ptx") of the kernel as last compiled."""
        if not self.instances:
            if not all(types.is_concrete(t) for _, t in self.params):
                raise CompileError(
                    f"kernel '{self.name}' is generic: launch it first, its types come from the arguments"
                )
            return self._looked_at()
        with self._lock:
            return next(reversed(self.instances.values())).stages

    def with_ptx(self, text: str) -> Kernel:
        """This kernel with `text` in place of the PTX that the compiler makes; it is launched as any other, on a GPU.

        The text is an edited `code`: it has the same entry, and arguments must be of the types that it was made for.
        A launch raises LaunchError where its entry does not take the arguments, and on the cpu.
        """
        made = Kernel(self.fn, self.key, self.module, self.options, self.shape, self.fixed, front_end=self.front_end)
        made.edited_ptx = text
        return made

    @property
    def code(self) -> str:
        """The PTX text of the kernel as last compiled, for `config.ptx_arch` unless it was compiled for a GPU."""
        return self.edited_ptx or str(self.stages["ptx"])


def _module_name(fn: Callable[..., Any], module: Any) -> str:
    return fn.__module__ if module in (None, "unique") else str(getattr(module, "__name__", module))


# what `@kernel` takes, most of it Warp's; what the GPU's code depends on is in `emit_ptx.GpuOptions`
OPTIONS = ("enable_backward", "fast_math", "mode", "max_unroll", "block_dim", "launch_bounds", "grid_stride", "fuse_fp",
           "lineinfo", "optimization_level", "deterministic", "entry_point_abi", "cuda_output",
           "max_registers", "lanes")  # fmt: skip


@typing.overload
def kernel(fn: Callable[..., Any]) -> Kernel: ...
@typing.overload
def kernel(*, shape: str = "auto", module: Any = None, module_options: Any = None, front_end: str = "python",
           **options: Any) -> Callable[[Callable[..., Any]], Kernel]: ...  # fmt: skip
def kernel(fn: Callable[..., Any] | None = None, *, shape: str = "auto", name: str | None = None, module: Any = None,
           module_options: dict[str, Any] | None = None, front_end: str = "python",
           **options: Any) -> Any:  # fmt: skip
    """Decorator: makes a Python function launchable over a grid of threads.

    Every parameter needs a type annotation; `Any` takes the type of the argument. shape: the form of CPU code,
    "lanes" (a vector of threads at a time), "thread" (one after the other), "auto" (what the cost model expects to be
    faster) or "timed" (what turns out to be faster in the first launches); results do not depend on it. module: a name
    under which it is loaded and listed. Of Warp's options, which all are accepted (`OPTIONS`), launch_bounds=threads or
    (threads, blocks of an SM), grid_stride and lineinfo count on a GPU, and so does max_registers; max_unroll=n takes
    loops of up to n constant rounds apart, instead of `config.max_unroll`. lanes: the most threads of a vector, for
    grids with a short last axis. Raises TypeError for an option that does not exist, ValueError for a wrong max_unroll.
    front_end: what reads the source, by its name in `engine.plugin.front_ends`.
    """
    if shape not in SHAPES:
        raise ValueError(f"shape must be one of {', '.join(map(repr, SHAPES))}, got {shape!r}")
    for option in options:
        if option not in OPTIONS:
            raise TypeError(f"kernel() has no option '{option}'")
    chosen = {**(module_options or {}), **options}
    check_unroll(chosen)

    def make(f: Callable[..., Any]) -> Kernel:
        made = Kernel(f, name, module, chosen, shape, front_end=front_end)
        made.module.kernels[made.key] = made
        return made

    return make(fn) if fn is not None else make


def overload(kernel: Any, arg_types: Any = None) -> Any:
    """The generic `kernel` for given parameter types: `overload(scale, [array(dtype=float), float])`.

    `arg_types` is a sequence, or a dict by parameter name for those that are generic. As a decorator, `@overload def
    scale(x: array(dtype=float), s: float): ...` names the types by the annotations of a function without a body.
    """
    if not isinstance(kernel, Kernel):
        return _overload_stub(kernel, sys._getframe(1))
    return kernel.specialised(_overload_types(kernel, arg_types))


def _overload_types(kernel: Kernel, arg_types: Any) -> list[types.Type]:
    params = kernel.params
    if arg_types is None:
        return [t for _, t in params]
    if isinstance(arg_types, dict):
        unknown = [name for name in arg_types if name not in dict(params)]
        if unknown:
            raise RuntimeError(f"kernel '{kernel.key}' has no parameter '{unknown[0]}'")
        wanted = [types.of_annotation(arg_types[name]) if name in arg_types else t for name, t in params]
    else:
        if len(arg_types) != len(params):
            raise RuntimeError(f"kernel '{kernel.key}' has {len(params)} parameters, {len(arg_types)} types are given")
        wanted = [types.of_annotation(t) for t in arg_types]
    bound: dict[str, types.Type] = {}
    for (name, pattern), t in zip(params, wanted, strict=True):
        if not types.matches(pattern, t, bound):
            raise RuntimeError(f"parameter '{name}' of kernel '{kernel.key}' takes {pattern!r}, not {t!r}")
    return wanted


def _overload_stub(fn: Callable[..., Any], frame: Any) -> Kernel:
    """Makes the kernel that the stub's name means for the stub's annotations; the name keeps its meaning."""
    generic = frame.f_locals.get(fn.__name__, frame.f_globals.get(fn.__name__))
    if not isinstance(generic, Kernel):
        found = get_module(fn.__module__).kernels.get(fn.__name__)
        if found is None:
            raise RuntimeError(f"overload: there is no kernel '{fn.__name__}' before this function")
        generic = found
    annotations = Func(fn).source.annotations
    generic.specialised(_overload_types(generic, {n: t for n, t in annotations.items() if n != "return"}))
    return generic


class Refused:
    """A function that exists in Warp and has no meaning here: calling it, in a kernel or in Python, is an error."""

    def __init__(self, name: str, reason: str):
        self.__name__, self.refused = name, reason

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise CompileError(f"'{self.__name__}': {self.refused}")


address_of = Refused("address_of", "variables have no address here; that of an array is a.ptr, and array(ptr=, shape=, "
                     "dtype=) is the memory at one")  # fmt: skip


def func_native(snippet: str, *args: Any, **kwargs: Any) -> Callable[[Callable[..., Any]], Refused]:
    """Warp's decorator for functions written in C++. They have no meaning here: using the function is an error."""
    return lambda fn: Refused(fn.__name__, "device code is written in the kernel language only, not in C++")
