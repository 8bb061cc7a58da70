"""The error classes: what went wrong, where, and the values that show it."""

from __future__ import annotations

import os
from typing import Any


class Error(Exception):
    """Base of every error that the engine raises on purpose. `str(error)` is one line that names the place.

    The constructor's arguments are kept for pickling, so that an error crosses a process border with all its fields.
    """

    _arguments: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})

    def __new__(cls, *arguments: Any, **named: Any) -> Error:
        self = super().__new__(cls, *arguments)
        self._arguments = (arguments, named)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), *self._arguments), {"__notes__": list(getattr(self, "__notes__", []))})


def _rebuild(kind: type[Error], arguments: tuple[Any, ...], named: dict[str, Any]) -> Error:
    return kind(*arguments, **named)


class CompileError(Error, SyntaxError, RuntimeError, TypeError, ValueError):
    """A kernel cannot be compiled. Being a `SyntaxError` with its position, Python itself draws the caret under it.

    `lineno` and `end_lineno` count from 1, `offset` and `end_offset` are columns from 1, `text` is the source line
    that the message is about. A message without a known position leaves them all None.
    """

    def __init__(
        self,
        message: str,
        *,
        filename: str | None = None,
        lineno: int | None = None,
        offset: int | None = None,
        text: str | None = None,
        end_lineno: int | None = None,
        end_offset: int | None = None,
    ):
        if filename is None:
            SyntaxError.__init__(self, message)
        else:
            SyntaxError.__init__(self, message, (filename, lineno, offset, text, end_lineno, end_offset))

    def __str__(self) -> str:
        """The place, then the message: one line that a log can keep."""
        if self.filename is None:
            return str(self.msg)
        return f"{os.path.basename(self.filename)}:{self.lineno}: {self.msg}"


class InternalError(Error, AssertionError):
    """The compiler broke one of its own rules: a bug of the engine, or of an IR pass that a plugin added."""


class ArgumentError(Error, ValueError, TypeError, RuntimeError):
    """A function was called with arrays or numbers that do not fit together.

    Of all these classes, since users of NumPy catch the first two and users of Warp the last.
    """


class LaunchError(Error, RuntimeError, TypeError, ValueError):
    """A kernel was launched with an argument that it does not take.

    `kernel` is the kernel's name, `argument` the parameter's (or "dim", "block_dim", ...), `expected` and `got` say in
    the user's words what was wanted and what came; `hint` is a suggestion, or "".
    """

    def __init__(self, kernel: str, argument: str, expected: Any, got: Any, hint: str = ""):
        self.kernel, self.argument, self.expected, self.got, self.hint = kernel, argument, expected, got, hint
        tail = f"; {hint}" if hint else ""
        super().__init__(f"launch of '{kernel}': argument '{argument}' expects {expected}, got {got}{tail}")


class CheckError(LaunchError):
    """A check in a kernel failed while it ran; see `engine.config.checked`.

    `kernel` is its name, `filename` and `lineno` the place in its source, `argument` the array as the kernel calls it,
    `index` and `extent` what did not fit along dimension `dim`, `thread` the index of the thread, `failed` how many
    checks failed in all. Of all that failed, the first one of the lowest thread is reported.
    """

    def __init__(self, kernel: str, reason: str, *, filename: str = "", lineno: int = 0, thread: tuple[int, ...] = (),
                 failed: int = 1, argument: str = "", index: int = 0, extent: int = 0, dim: int = 0):  # fmt: skip
        self.kernel, self.reason, self.filename, self.lineno = kernel, reason, filename, lineno
        self.thread, self.failed = thread, failed
        self.argument, self.index, self.extent, self.dim = argument, index, extent, dim
        self.expected, self.got, self.hint = "checks that hold", reason, ""
        at = str(thread[0]) if len(thread) == 1 else str(thread)
        more = f"; {failed} checks failed" if failed > 1 else ""
        place = f"{os.path.basename(filename)}:{lineno}"
        Exception.__init__(self, f"launch of '{kernel}': {place}: {reason} (thread {at}{more})")


class BoundsError(CheckError, IndexError):
    """A kernel used an index outside of an array, a vector or a matrix."""


class AssertError(CheckError, AssertionError):
    """An `assert` in a kernel does not hold."""


class NotFiniteError(CheckError, FloatingPointError):
    """A kernel stored a NaN or an infinity, which `engine.config.verify_fp` forbids."""


class DivisionWarning(RuntimeWarning):
    """A kernel divided integers by zero in checked mode; the results were 0."""


class TapeError(Error, RuntimeError):
    """A tape was asked for something that it cannot do: second derivatives, a loss that nothing depends on."""


class CaptureError(Error, NotImplementedError):
    """A call that a graph cannot hold, or that is out of place, while launches are captured; `call` is its name."""

    def __init__(self, call: str, reason: str):
        self.call, self.reason = call, reason
        super().__init__(f"{call}: {reason}")


class DeviceError(Error, RuntimeError):
    """A call of a device's driver failed, or the device does not exist.

    `call` is the driver function, `code` its status number, `name` the status as the driver spells it, `arguments` what
    the function was called with.
    """

    def __init__(self, call: str, code: int = 0, name: str = "", arguments: tuple[Any, ...] = ()):
        self.call, self.code, self.name, self.arguments = call, code, name, tuple(arguments)
        status = f": {name}" if name else ""
        number = f" ({code})" if code else ""
        given = f", called with ({', '.join(map(repr, self.arguments))})" if self.arguments else ""
        super().__init__(f"{call}{status}{number}{given}")


class SceneError(Error, ValueError):
    """A scene, or a part of a model being built, is not valid.

    `path` is the file ("" for a model built in Python), `prim` the prim, element or label in it ("" for the file as a
    whole), `reason` what is wrong.
    """

    def __init__(self, path: Any, prim: str, reason: str):
        self.path, self.prim, self.reason = str(path), str(prim), reason
        super().__init__(": ".join(part for part in (self.path, self.prim, reason) if part))


class SimulationError(Error, RuntimeError):
    """A step produced a value that cannot be (NaN, infinity), or cannot be taken.

    `body` is the label or index of the body, `field` the state field, `frame` the number of the frame.
    """

    def __init__(self, body: Any, field: str, frame: int, reason: str = "is not finite"):
        self.body, self.field, self.frame, self.reason = body, field, frame, reason
        super().__init__(f"frame {frame}: {field} of body '{body}' {reason}")


class ConfigError(Error, ValueError):
    """A knob got a value that it does not take, or was assigned too late. `knob` is its name."""

    def __init__(self, knob: str, reason: str):
        self.knob, self.reason = knob, reason
        super().__init__(f"{knob}: {reason}")


class PluginError(Error, LookupError):
    """A plugin is unknown, is registered twice, or cannot be loaded. `registry` and `name` say which."""

    def __init__(self, registry: str, name: str, reason: str):
        self.registry, self.name, self.reason = registry, name, reason
        super().__init__(f"{registry} '{name}': {reason}")
