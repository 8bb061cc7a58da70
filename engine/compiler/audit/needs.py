"""Contracts that would settle what the audit left open, in the words of the kernel language: text to paste."""

from __future__ import annotations

from collections.abc import Sequence

from engine.compiler.audit.terms import Affine, Atom, Condition
from engine.compiler.types import Table, Type

_SIGNS = {"mul": "*", "floordiv": "//", "mod": "%"}


def requirement(conditions: Sequence[Condition], params: dict[str, Type], ndim: int) -> str:
    """`@engine.requires(…)` for conditions on every thread of a kernel; "" where none can be said.

    ndim: of the thread's index; where that is 1, `tid` is no tuple.
    """
    names: dict[str, None] = {}
    each = [part for c in conditions for part in (c[1:] if c[0] == "and" else (c,))]
    said: dict[str, None] = {}
    for one in each:
        used: dict[str, None] = {}
        text = _condition(one, params, used)
        if text is not None:
            said[text] = None
            names |= used
    if ndim == 1:
        said = {text.replace("tid[0]", "tid"): None for text in said}
    given = [name for name in ("tid", *params) if name in names]
    return f"@engine.requires(lambda {', '.join(given)}: {' and '.join(said)})" if said else ""


def _condition(c: Condition, params: dict[str, Type], names: dict[str, None]) -> str | None:
    if c[0] in ("and", "or"):
        parts = [_condition(part, params, names) for part in c[1:]]
        if None in parts or not parts:
            return None
        text = f" {c[0]} ".join(map(str, parts))
        return f"({text})" if c[0] == "or" else text
    if c[0] != "le":
        return None
    a: Affine = c[1]
    left = Affine(tuple(p for p in a.parts if p[1] > 0), max(a.const, 0))
    right = Affine(tuple((x, -k) for x, k in a.parts if k < 0), max(-a.const, 0))
    strict = left.const == 1 and bool(left.parts)  # a + 1 <= b
    sides = [_sum(Affine(left.parts) if strict else left, params, names), _sum(right, params, names)]
    return None if None in sides else f"{sides[0]} {'<' if strict else '<='} {sides[1]}"


def _sum(a: Affine, params: dict[str, Type], names: dict[str, None]) -> str | None:
    shown = []
    for atom, k in a.parts:
        text = _atom(atom, params, names)
        if text is None:
            return None
        shown.append(text if k == 1 else f"{k} * {text}")
    return " + ".join([*shown, str(a.const)] if a.const or not shown else shown)


def _atom(atom: Atom, params: dict[str, Type], names: dict[str, None]) -> str | None:
    args = atom.args
    if atom.kind == "thread" and args[0].startswith("thread[") and len(args) == 1:
        names["tid"] = None
        return str(args[0]).replace("thread", "tid")
    if atom.kind in ("argument", "extent", "load"):
        root = str(args[0]).split(".")[0]
        if root not in params or not all(part.isidentifier() for part in str(args[0]).split(".")):
            return None
        names[root] = None
        if atom.kind == "argument":
            return str(args[0])
        if atom.kind == "extent":
            return _extent(str(args[0]), args[1], params)
        places = [_sum(place, params, names) for place in args[1]]
        return None if None in places or args[2] else f"{args[0]}[{', '.join(map(str, places))}]"
    if atom.kind in _SIGNS:
        sides = [_sum(x, params, names) for x in args]
        return None if None in sides else f"(({sides[0]}) {_SIGNS[atom.kind]} ({sides[1]}))"
    if atom.kind in ("min", "max"):
        sides = [_sum(x, params, names) for x in args]
        return None if None in sides else f"{atom.kind}({sides[0]}, {sides[1]})"
    return None


def _extent(name: str, dim: int | str, params: dict[str, Type]) -> str | None:
    """The extent of an array along a dimension, or the count of a table, which its fields have."""
    if isinstance(dim, int):
        return f"{name}.shape[{dim}]"
    table = params.get(name)
    fields = [field for field, _, symbol in table.fields if symbol == dim] if isinstance(table, Table) else []
    return f"{name}.{fields[0]}.shape[0]" if fields else None
