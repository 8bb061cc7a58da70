"""Writes engine/__init__.pyi, from which editors and type checkers know the names that `engine` makes when first used.

    python tools/make_stub.py           writes the file
    python tools/make_stub.py --check   says whether it is in step (exit code 1 if not)

Functions of the language get one overload for each combination of argument types that they take among common types; the
result's type is that of a call in Python.
"""

import ast
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import engine
from engine.compiler import lang, ops, types
from engine.compiler.library.registry import Builtin
from engine.compiler.types import Scalar
from engine.compiler.values import Value, type_of

STUB = Path(__file__).resolve().parents[1] / "engine" / "__init__.pyi"  # of this checkout, whatever else is installed

HEAD = '''"""The names of `engine` for editors and type checkers. Made by tools/make_stub.py."""

# mypy: disable-error-code="overload-overlap, misc, override, valid-type, assignment"
import builtins
import typing
from collections.abc import Iterator
from typing import Any, Self

class _Value:
    dtype: Any
    def __init__(self, *components: Any, **named: Any) -> None: ...
    def __len__(self) -> builtins.int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __getitem__(self, index: Any) -> Any: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
    def __add__(self, other: Any) -> Self: ...
    def __radd__(self, other: Any) -> Self: ...
    def __sub__(self, other: Any) -> Self: ...
    def __rsub__(self, other: Any) -> Self: ...
    def __mul__(self, other: Any) -> Any: ...
    def __rmul__(self, other: Any) -> Any: ...
    def __truediv__(self, other: Any) -> Self: ...
    def __matmul__(self, other: Any) -> Any: ...
    def __neg__(self) -> Self: ...
    def __pos__(self) -> Self: ...
'''
# what stands for a type of the kernel language in Python
SAMPLES = (1, 0.5, True, *(getattr(engine, n)() for n in ("vec2", "vec3", "vec4", "quat", "mat22", "mat33", "mat44",
                                                          "transform")))  # fmt: skip
PLAIN = {"int": "builtins.int", "float": "builtins.float", "bool": "builtins.bool"}


def first_line(thing: Any) -> str:
    text = (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ").replace("\\", "\\\\").strip()
    return text.replace('"""', "'''")


def body(doc: str, indent: str = "") -> str:
    if not doc:
        return " ..."
    quoted = doc + (" " if doc.endswith('"') else "")
    return f'\n{indent}    """{quoted}"""'


def name_of(value: Any) -> str:
    """The type of a Python value as the stub calls it."""
    kind = type(value)
    if isinstance(value, tuple):
        return f"tuple[{', '.join(map(name_of, value))}]"
    if value is None:
        return "None"
    if kind.__name__ in PLAIN and kind.__module__ == "builtins":
        return PLAIN[kind.__name__]
    return CLASSES.get(kind, "Any")


def classes() -> dict[type, str]:
    """Value classes by their shortest name."""
    found: dict[type, str] = {}
    for name in sorted(dir(lang), key=lambda n: (len(n), n)):
        value = getattr(engine, name, None)
        if isinstance(value, type) and issubclass(value, Value):
            found.setdefault(value, name)
    return found


CLASSES = classes()


def combinations(builtin: Builtin) -> Iterator[tuple[tuple[str, ...], tuple[Any, ...]]]:
    """(names of the parameters, arguments) of calls that the function takes."""
    seen = set()
    for overload in builtin.overloads:
        names = tuple(p.name for p in overload.parameters)
        for sample in SAMPLES:
            given = []
            for pattern in overload.patterns:
                fitting = [s for s in (sample, *SAMPLES) if types.matches(pattern, type_of(s), {})]
                given += fitting[:1]
            kinds = tuple(type_of(s) for s in given)
            if len(given) == len(names) and kinds not in seen and builtin.resolve(kinds) is overload:
                seen.add(kinds)
                yield names, tuple(given)


def function(name: str, builtin: Builtin) -> str:
    """The overloads of a function of the language."""
    doc, rows = first_line(builtin), []
    for names, given in combinations(builtin):
        try:
            result = "Any" if any(f.updates for f in builtin.overloads) else name_of(builtin(*given))
        except (TypeError, ValueError, ArithmeticError, NotImplementedError, AttributeError, IndexError):
            result = "Any"
        rows.append(f"({', '.join(f'{n}: {name_of(s)}' for n, s in zip(names, given, strict=True))}) -> {result}:")
    general = max((f.parameters for f in builtin.overloads), key=len, default=[])
    fewest = min(sum(p.default is p.empty for p in f.parameters) for f in builtin.overloads)
    rows.append(f"({', '.join(f'{p.name}: Any' + ' = ...' * (k >= fewest) for k, p in enumerate(general))}) -> Any:")
    if len(rows) == 1:
        return f"def {name}{rows[0]}{body(doc)}\n"
    return "".join(f"@typing.overload\ndef {name}{row}{body(doc if k == 0 else '')}\n" for k, row in enumerate(rows))


def value_class(name: str, cls: type[Value]) -> str:
    if CLASSES[cls] != name:
        return f"{name} = {CLASSES[cls]}\n"
    whole = cls.ir_type
    same = types.components(whole)
    number = "builtins.float" if same is not None and same[0].is_float else "builtins.int"
    parts = {"p": "vec3", "q": "quat"} if isinstance(whole, types.Transform) else {}
    if isinstance(whole, types.Vector | types.Quat):
        parts = dict.fromkeys("xyzw"[: len(types.leaves(whole))], number)
    lines = [f"    {part}: {kind}\n" for part, kind in parts.items()]
    doc = body(first_line(cls) if cls.__doc__ else f"{whole!r}: a value of kernels and of Python.")
    return f"class {name}(_Value):{doc}\n{''.join(lines)}"


def imported() -> dict[str, str]:
    """Names that `engine` imports, with their modules."""
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(STUB.with_suffix(".py").read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module != "typing":
            for alias in node.names:
                name = alias.asname or alias.name
                found[name] = f"from {node.module} import {alias.name} as {name}"
    for name in engine.context.__all__:
        found.setdefault(name, f"from engine.context import {name} as {name}")
    for name in (*engine._MODULES, "config"):
        found[name] = f"from engine import {name} as {name}"
    for name, home in engine._FUNCTIONS.items():
        found[name] = f"from {home} import {name} as {name}"
    found["config"] = "from engine.config import config as config"
    return found


def entry(name: str, value: Any, known: dict[str, str]) -> str:
    """What the stub says about one name."""
    if isinstance(value, Scalar):  # an annotation and a conversion
        python = "builtins.float" if value.is_float else "builtins.int"
        return f"class {name}({python}):\n    def __new__(cls, value: Any = ...) -> Self: ...\n"
    if isinstance(value, types.Generic):
        return f"{name} = Any\n"
    if isinstance(value, type) and issubclass(value, Value):
        return value_class(name, value)
    if isinstance(value, Builtin):
        return function(name, value)
    if name in known:
        return known[name] + "\n"
    if isinstance(value, int | float):
        return f"{name}: {PLAIN[type(value).__name__]}\n"
    if inspect.isfunction(value) or inspect.isclass(value):
        return f"from {value.__module__} import {value.__name__} as {name}\n"
    row = ops.ELEMENTWISE.get(getattr(value, "primitive", ""))
    given = ", ".join(f"{n}: Any" for n in "abc"[: row.arity]) if row else "*args: Any, **named: Any"
    return f"def {name}({given}) -> Any:{body(first_line(value))}\n"


builtins_numbers = (int, float)


def stub() -> str:
    """The text of the stub file."""
    known = imported()
    names = sorted({*engine.__all__, *dir(engine), *known} - {"library", "t", "annotations"})
    parts: dict[bool, list[str]] = {True: [], False: []}
    for name in sorted(names, key=lambda n: (len(n), n)):
        if name.startswith("_") or name in ("importlib", "TYPE_CHECKING", "lang"):
            continue
        text = entry(name, getattr(engine, name), known)
        parts[text.startswith("from ")].append(text)
    return "".join([HEAD, *sorted(parts[True]), "\n__version__: str\n", *parts[False]])


def main() -> int:
    text = stub()
    if "--check" in sys.argv:
        return STUB.read_text() != text
    STUB.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
