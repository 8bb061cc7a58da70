"""`func_grad` and `func_replay`: the user's own gradient of a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.compiler.function import Func


def func_grad(forward: Func) -> Callable[[Callable[..., Any]], Func]:
    """Decorator: the decorated function is the gradient of the function `forward`.

    It takes the arguments of `forward` and then the adjoint of each result, and adds to `adjoint[x]` of each argument x
    what these make. Of overloads, it belongs to the one with the same annotations.
    """
    if not isinstance(forward, Func):
        raise TypeError(f"func_grad takes a function made by @func, got {forward!r}")

    def register(fn: Callable[..., Any]) -> Func:
        gradient = Func(fn, fn.__name__, forward.module)
        target = _overload(forward, gradient)
        target.gradient = gradient
        target.specialisations.clear()
        Func.gradients += 1
        return gradient

    return register


def _overload(forward: Func, gradient: Func) -> Func:
    """The overload whose parameters are the first ones of the gradient function."""
    fitting = [f for f in forward.overloads if gradient.signature[: len(f.signature)] == f.signature]
    if not fitting and len(forward.overloads) > 1:
        raise TypeError(f"no overload of {forward.name} has the parameters of its gradient function {gradient.name}")
    return max(fitting, key=lambda f: len(f.signature), default=forward)


def func_replay(forward: Func) -> Callable[[Callable[..., Any]], Func]:
    """Decorator, for scripts written for Warp: what to run in place of `forward` on the way back.

    It is not needed here: the way back does not run functions with effects again, but reads their results off the tape.
    """
    if not isinstance(forward, Func):
        raise TypeError(f"func_replay takes a function made by @func, got {forward!r}")
    return lambda fn: Func(fn, fn.__name__, forward.module)
