"""print, assume and the expect functions in Python scope; in kernels the front end gives them their meaning."""

from __future__ import annotations

from typing import Any

import numpy as np


class Expectation:
    """A name that the front end knows as intrinsic `intrinsic`; in Python scope `function` is called."""

    def __init__(self, name: str, function: Any):
        self.intrinsic = self.__name__ = name
        self.__doc__ = function.__doc__
        self._function = function

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._function(*args, **named)

    def __repr__(self) -> str:
        return f"<builtin {self.intrinsic}>"


def _equal(a: Any, b: Any) -> None:
    """Prints an error unless both values are equal."""
    if not np.array_equal(np.asarray(a), np.asarray(b)):
        print(f"Error: expect_eq({a!r}, {b!r}) failed")


def _differs(a: Any, b: Any) -> None:
    """Prints an error unless the values differ."""
    if np.array_equal(np.asarray(a), np.asarray(b)):
        print(f"Error: expect_neq({a!r}, {b!r}) failed")


def _near(a: Any, b: Any, tolerance: float = 1.0e-6) -> None:
    """Prints an error unless all components are within the tolerance of each other."""
    if not np.all(np.abs(np.asarray(a, float) - np.asarray(b, float)) <= tolerance):
        print(f"Error: expect_near({a!r}, {b!r}, {tolerance}) failed")


def _assume(condition: Any, reason: str = "") -> None:
    """Says what the caller guarantees: a fact for `engine audit`, checked in checked mode, else no code at all."""
    if not condition:
        raise AssertionError(reason or "what was assumed does not hold")


show = Expectation("print", print)
EXPECTATIONS = {
    name: Expectation(name, function)
    for name, function in (("assume", _assume), ("expect_eq", _equal), ("expect_neq", _differs),
                           ("expect_near", _near))
}
