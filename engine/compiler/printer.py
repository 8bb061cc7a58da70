"""Prints IR as text: the form that people read, that tests check, and that the cache key hashes.

The text is deterministic and complete: equal text means equal code. Values are numbered in the order of their ops;
structs and tables that the function uses are spelled out first, because their names alone do not identify them.
"""

from __future__ import annotations

from typing import Any

from engine.compiler.ir import Function, Op, Region
from engine.compiler.types import Array, LocalArray, Struct, Table, Tuple, Type, void

_REGION_NAMES = {"if": ("then", "else"), "for": ("body",), "while": ("condition", "body")}


def print_function(fn: Function, locations: bool = False) -> str:
    """The function as text; with `locations`, each op ends in a comment with its source line and column."""
    return _Printer(locations).function(fn)


def print_op(op: Op) -> str:
    """One op in a line, its operands by kind: for error messages."""
    operands = ", ".join(f"<{v.kind} {v.type!r}>" for v in op.operands)
    attrs = "".join(f" {k}={_attribute(v)}" for k, v in sorted(op.attrs.items()))
    where = f" at {op.loc.line}:{op.loc.column}" if op.loc else ""
    return f"{op.kind} {operands}{attrs} : {op.type!r}{where}"


def _attribute(value: Any) -> str:
    if isinstance(value, Function):
        return f"@{value.name}"
    if isinstance(value, Op):
        return f"<{value.kind} {value.attrs.get('name', '')}>"
    return repr(value)


class _Printer:
    def __init__(self, locations: bool):
        self.locations = locations
        self.lines: list[str] = []
        self.numbers: dict[Op, str] = {}
        self.type_texts: dict[int, str] = {}  # by id: hashing a table's type costs more than printing it
        self.types: list[Type] = []  # keeps the ids above valid
        self.definitions: dict[str, None] = {}

    def function(self, fn: Function) -> str:
        params = []
        for p in fn.params:
            number = self.number(p)
            path = f"[{_path(p.attrs['path'])}]" if "path" in p.attrs else ""
            params.append(f"{number} {p.attrs.get('name', '')}#{p.attrs['index']}{path}: {self.type(p.type)}")
        self.region(fn.body, "  ")
        word = "kernel" if fn.is_kernel else "func"
        head = f"{word} {fn.name}({', '.join(params)}) -> {self.type(fn.result)} {{"
        return "\n".join([*self.definitions, head, *self.lines, "}"]) + "\n"

    def number(self, op: Op) -> str:
        name = self.numbers[op] = f"%{len(self.numbers)}"
        return name

    def type(self, t: Type) -> str:
        text = self.type_texts.get(id(t))
        if text is None:
            text = self.type_texts[id(t)] = repr(t)
            self.types.append(t)
            self.define(t)
        return text

    def define(self, t: Type) -> None:
        """Spell out the structs and tables that `t` mentions."""
        if isinstance(t, Struct):
            for _, inner in t.fields:
                self.type(inner)
            self.definitions[f"struct {t.name} {{ {'; '.join(f'{n}: {f!r}' for n, f in t.fields)} }}"] = None
        elif isinstance(t, Table):
            for _, inner, _ in t.fields:
                self.type(inner)
            fields = "; ".join(f"{n}[{symbol}]: {f!r}" for n, f, symbol in t.fields)
            self.definitions[f"table {t.name} {{ {fields} }}"] = None
        elif isinstance(t, Array | LocalArray):
            self.type(t.dtype)
        elif isinstance(t, Tuple):
            for inner in t.items:
                self.type(inner)

    def region(self, region: Region, indent: str) -> None:
        numbers, lines = self.numbers, self.lines
        for op in region.ops:
            kind = op.kind
            text = [kind]
            if op.operands:
                text.append(", ".join([numbers.get(v, "%?") for v in op.operands]))
            if op.attrs:
                text.append(self.attributes(op.attrs))
            line = " ".join(text)
            if op.type is not void:
                line = f"{self.number(op)} = {line} : {self.type(op.type)}"
            comment = f"  # {op.loc.line}:{op.loc.column}" if self.locations and op.loc else ""
            if not op.regions:
                lines.append(f"{indent}{line}{comment}")
                continue
            names = _REGION_NAMES.get(kind, ())
            lines.append(f"{indent}{line} {{{comment}")
            for k, inner in enumerate(op.regions):
                if k:
                    lines.append(f"{indent}}} {names[k] if k < len(names) else 'region'} {{")
                self.region(inner, indent + "  ")
            lines.append(f"{indent}}}")

    def attributes(self, attrs: dict[str, Any]) -> str:
        if len(attrs) == 1:
            ((key, value),) = attrs.items()
            return f"{key}={self.attribute(value)}"
        return " ".join([f"{key}={self.attribute(attrs[key])}" for key in sorted(attrs)])

    def attribute(self, value: Any) -> str:
        if isinstance(value, Op):
            return self.numbers.get(value, "%?")
        if isinstance(value, Function):
            return f"@{value.name}"
        if isinstance(value, Type):
            return self.type(value)
        return repr(value)


def _path(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path))
