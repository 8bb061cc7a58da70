"""`Func`: a Python function that kernels may call, and that also runs as plain Python."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, overload

from engine.compiler import types
from engine.compiler.ir import Function
from engine.compiler.modules import Module, get_module
from engine.compiler.source import Source
from engine.errors import CompileError


class Func:
    """What `@func` makes. Reads no source until a kernel calls it; one HIR function per combination of argument types.

    `overloads` are the functions of this name with other parameter types, this one included, in order of definition.
    """

    references_exist = False  # whether any function of this process has some: looking for calls with them takes time
    gradients = 0  # how many `func_grad` gave: what was made before the last one may lack it
    annotates_functions = True  # `f: Function` takes a function, known while compiling

    def __init__(self, fn: Callable[..., Any], name: str = "", module: Module | None = None):
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.name = self.key = name or fn.__name__
        self.module = module
        self.source = Source(fn)
        self.specialisations: dict[tuple[Any, ...], Function | None] = {}  # None while it is being lowered
        self.overloads: list[Func] = [self]
        # whether a parameter is a reference; the annotations are not evaluated yet, so "ref" in a text counts
        notes = fn.__annotations__.values()
        self.has_references = any(isinstance(n, types.Reference) or isinstance(n, str) and "ref" in n for n in notes)
        Func.references_exist |= self.has_references
        self.gradient: Func | None = None  # set by `func_grad`

    @functools.cached_property
    def requirements(self) -> list[Func]:
        """The contracts that `requires` added, in the order that they are written in."""
        return [Func(contract) for contract in getattr(self.fn, "__requirements__", ())]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(self.overloads) > 1:
            return self._for_python(args, kwargs).fn(*args, **kwargs)
        return self.fn(*args, **kwargs)

    def _for_python(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Func:
        """The overload that takes these Python values; the last definition where none is sure to."""
        from engine.compiler.values import type_of

        for one in self.overloads:
            try:
                bound = inspect.signature(one.fn).bind(*args, **kwargs)
                names: dict[str, types.Type] = {}
                notes = one.source.annotations
                given = bound.arguments.items()
                if all(n not in notes or types.matches(notes[n], type_of(v), names) for n, v in given):
                    return one
            except TypeError:
                continue
        return self

    def __repr__(self) -> str:
        return f"<func {self.name}>"

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return self.fn.__code__.co_varnames[: self.fn.__code__.co_argcount]

    @functools.cached_property
    def signature(self) -> tuple[str, ...]:
        """The annotations of the parameters as text: what tells overloads from redefinitions."""
        notes = self.fn.__annotations__
        return tuple(_annotation_text(notes.get(name, Any)) for name in self.parameter_names)

    def join(self, other: Any) -> None:
        """Makes this function an overload beside `other`, the function that its name meant until now."""
        if isinstance(other, Func) and other.module is self.module and other.fn.__qualname__ == self.fn.__qualname__:
            kept = [f for f in other.overloads if f.signature != self.signature]
            if any(_without_ref(f.signature) == _without_ref(self.signature) for f in kept):
                raise CompileError(f"the overloads of '{self.name}' differ only in ref[…], which a call does not show",
                                   filename=self.source.filename, lineno=self.source.first_line)  # fmt: skip
            self.overloads = [*kept, self]
            for one in self.overloads:
                one.overloads = self.overloads


def _without_ref(signature: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(re.sub(r"^(\w+\.)?ref\[(.*)\]$", r"\2", text) for text in signature)


def _annotation_text(note: Any) -> str:
    if isinstance(note, str):
        return note
    try:
        return repr(types.of_annotation(note))
    except TypeError:
        return repr(note)


P, R = ParamSpec("P"), TypeVar("R")


@overload
def func(fn: Callable[P, R]) -> Callable[P, R]: ...
@overload
def func(*, name: str | None = None, module: Any = None,
         inline: bool = True) -> Callable[[Callable[P, R]], Callable[P, R]]: ...  # fmt: skip
def func(fn: Callable[..., Any] | None = None, *, name: str | None = None, module: Any = None,
         inline: bool = True) -> Any:  # fmt: skip
    """Decorator: makes a Python function callable from kernels (and from other funcs).

    Parameters without annotation take any type; the function is specialised for each combination that it is called
    with. A second function of the same name in the same scope, with other annotations, is an overload. name: how
    messages call it. `module` and `inline` are accepted for scripts written for Warp.
    """
    if fn is None:
        return lambda f: _make(f, name, sys._getframe(1))
    return _make(fn, name, sys._getframe(1))


def _make(fn: Callable[..., Any], name: str | None, frame: Any) -> Func:
    made = Func(fn, name or "", get_module(fn.__module__))
    made.join(frame.f_locals.get(fn.__name__))
    assert made.module is not None
    made.module.functions[made.name] = made
    return made


def requires(*contracts: Callable[..., Any]) -> Callable[[R], R]:
    """Decorator of kernels and funcs: what their callers guarantee, as functions of some parameters, by their names.

        @engine.requires(lambda tid, x, out: tid < x.shape[0] and tid < out.shape[0])
        @engine.kernel
        def copy(x: engine.array(dtype=float), out: engine.array(dtype=float)): ...

    `tid` is the index of the thread, or a tuple of them where the kernel takes `tid()` apart. In checked mode each
    thread checks them first, and a launch raises CheckError naming kernel, line and thread; `engine audit` takes them
    as facts. Else they cost nothing.
    """

    def add(target: Any) -> Any:
        fn = getattr(target, "fn", target)
        fn.__requirements__ = [*contracts, *getattr(fn, "__requirements__", ())]
        return target

    return add
