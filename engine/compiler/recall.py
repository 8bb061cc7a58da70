"""Finds a kernel's cache key without lowering it: a note of what its last lowering read, checked against what is now.

A warm start would otherwise type every kernel again just to hash it. The note lists the source files of the kernel and
of all functions it calls (by content), and every captured name with a fingerprint of its value. Where one of them
differs, or cannot be told (closures, `static()`, objects that are not plain data), the kernel is lowered as when cold.
"""

from __future__ import annotations

import enum
import functools
import sys
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numpy as np

from engine.compiler import types
from engine.compiler.cache import KernelCache, digest
from engine.compiler.function import Func
from engine.compiler.ir import Function
from engine.compiler.library.registry import Builtin, LibraryFunction
from engine.compiler.values import StructValue, Value


def note_key(func: Func, arg_types: tuple[types.Type, ...], *rest: str) -> str:
    """The name under which the note of a kernel for these argument types is kept."""
    place = (str(func.fn.__module__), func.fn.__qualname__, func.source.filename, code_digest(func))
    return digest("note", *place, *map(type_text, arg_types), *rest, front_end_version())


def recall(note: str) -> str | None:
    """The kernel's cache key as noted, if nothing that it depends on has changed."""
    entry = KernelCache().get(note)
    if entry is None:
        return None
    header = entry[0]
    if any(file_digest(path) != known for path, known in header["files"].items()):
        return None
    if any(fingerprint(_resolve(path)) != known for path, known in header["captures"].items()):
        return None
    return header["key"]


def remember(note: str, fn: Function, key: str) -> None:
    """Notes what lowering `fn` depended on, unless something cannot be told apart."""
    files: set[str] = set()
    captures: dict[str, str] = {}
    if not _gather(fn, files, captures, set()):
        return
    digests = {path: file_digest(path) for path in files}
    if all(digests.values()):
        KernelCache().put(note, {"files": digests, "captures": captures, "key": key}, b"")


def _gather(fn: Function, files: set[str], captures: dict[str, str], seen: set[int]) -> bool:
    """Collects files and captures of `fn` and its callees; whether all of them can be checked later."""
    if id(fn) in seen:
        return True
    seen.add(id(fn))
    if fn.captures is None:
        return False
    for path, value in fn.captures.items():
        mark = fingerprint(value)
        if mark is None or fingerprint(_resolve(path)) != mark:
            return False
        captures[path] = mark
    files.add(fn.file)
    return all(_gather(callee, files, captures, seen) for callee in fn.callees())


def fingerprint(value: Any) -> str | None:
    """A text that changes when the meaning of a captured value does; None for what is not plain data."""
    match value:
        case enum.Enum():
            return f"{type(value).__qualname__}.{value.name}={value.value!r}"
        case bool() | int() | float() | str() | None:
            return repr(value)
        case np.generic():
            return f"{value.dtype} {value!r}"
        case tuple():
            parts = [fingerprint(v) for v in value]
            return None if None in parts else f"({', '.join(map(str, parts))})"
        case Value():
            return f"{type_text(value.ir_type)} {np.asarray(value).tobytes().hex()}"
        case StructValue():
            return None
        case types.Type():
            return type_text(value)
        case Func():
            defaults = fingerprint(value.fn.__defaults__ or ())
            kind = "func" if value.gradient is None else "func with its own gradient"
            name = f"{value.fn.__module__}:{value.fn.__qualname__}"
            return None if defaults is None else f"{kind} {name} {defaults} {code_digest(value)}"
        case Builtin() | LibraryFunction():
            return repr(value)
        case ModuleType():
            return f"module {value.__name__}"
        case type():
            t = getattr(value, "ir_type", None)
            return f"class {value.__module__}:{value.__qualname__} {type_text(t) if isinstance(t, types.Type) else ''}"
    known = getattr(value, "intrinsic", None) or getattr(value, "primitive", None)
    return f"name {known}" if isinstance(known, str) else f"callable {value!r}" if value in _PYTHON else None


def code_digest(func: Func) -> str:
    """Tells functions apart that have one name and one place, such as two lambdas of a line."""
    code = func.fn.__code__
    constants = [c for c in code.co_consts if not isinstance(c, CodeType)]
    return digest(str(code.co_firstlineno), code.co_code, repr(code.co_names), repr(constants))


_PYTHON = frozenset({abs, len, max, min, range, round, print})


def type_text(t: types.Type) -> str:
    """The type with everything that it is made of."""
    match t:
        case types.Struct(name, fields):
            return f"struct {name} {{{', '.join(f'{n}: {type_text(f)}' for n, f in fields)}}}"
        case types.Table(name, fields):
            return f"table {name} {{{', '.join(f'{n}: {type_text(f)} [{s}]' for n, f, s in fields)}}}"
        case types.Array(dtype, ndim, layout):
            return f"{type(t).__name__} {type_text(dtype)} {ndim} {layout}"
    return repr(t)


def _resolve(path: str) -> Any:
    """The object at "module:dotted.name", or a value that has no fingerprint."""
    module, _, dotted = path.partition(":")
    found: Any = sys.modules.get(module)
    try:
        return functools.reduce(getattr, dotted.split("."), found)
    except AttributeError:
        return _MISSING


_MISSING = object()


@functools.cache
def file_digest(path: str) -> str | None:
    """Hash of a source file, read once in a process; None if it cannot be read."""
    try:
        return digest(Path(path).read_bytes())
    except OSError:
        return None


@functools.cache
def front_end_version() -> str:
    """Hash of all source of the compiler: the note stands for its front end and library too."""
    folder = Path(__file__).parent
    return digest(*[path.read_bytes() for path in sorted(folder.rglob("*.py"))])
