"""Reading the arguments of tile functions: shapes, types and offsets that are known while compiling, tiles, arrays."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.compiler import types
from engine.compiler.frontend.context import Lowering, Several, Static, Value
from engine.compiler.frontend.intrinsics import INTRINSICS
from engine.compiler.frontend.parts import to_int32
from engine.compiler.frontend.tile_elements import MAX_DIMS
from engine.compiler.ir import Op

STORAGES = ("register", "shared")


@dataclass
class Call:
    """A call of a tile function: its arguments by name, with the defaults filled in."""

    ctx: Lowering
    name: str
    given: dict[str, Value]
    node: ast.AST

    def error(self, message: str, hint: str = "") -> Exception:
        return self.ctx.error(self.node, f"{self.name}(): {message}", hint)

    def known(self, parameter: str) -> Any:
        """An argument that is known while compiling."""
        return self._known(self.given[parameter], parameter)

    def _known(self, v: Value, parameter: str) -> Any:
        if isinstance(v, Static):
            return v.value
        if isinstance(v, Several):
            return tuple(self._known(item, parameter) for item in v.items)
        raise self.error(f"'{parameter}' must be known while compiling")

    def shape(self, parameter: str = "shape") -> tuple[int, ...]:
        """1 to 4 positive whole numbers."""
        value = self.known(parameter)
        extents = tuple(value) if isinstance(value, tuple | list) else (value,)
        if not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in extents):
            raise self.error(f"'{parameter}' consists of positive whole numbers, not {value!r}")
        if not 1 <= len(extents) <= MAX_DIMS:
            raise self.error(f"a tile has 1 to {MAX_DIMS} dimensions, '{parameter}' has {len(extents)}")
        return tuple(int(n) for n in extents)

    def dtype(self, parameter: str = "dtype") -> types.Type:
        value = self.known(parameter)
        try:
            return types.of_annotation(value)
        except TypeError as error:
            raise self.error(str(error)) from None

    def storage(self) -> str:
        value = self.known("storage")
        if value not in STORAGES:
            raise self.error(f"storage must be 'register' or 'shared', not {value!r}")
        return str(value)

    def tile(self, parameter: str) -> Op:
        v = self.given[parameter]
        if not isinstance(v, Op) or not isinstance(v.type, types.Tile):
            raise self.error(f"'{parameter}' must be a tile")
        return v

    def array(self, parameter: str) -> Op:
        v = self.given[parameter]
        if not isinstance(v, Op) or not isinstance(v.type, types.Array):
            raise self.error(f"'{parameter}' must be an array")
        return v

    def value(self, parameter: str, want: types.Type | None = None) -> Op:
        return self.ctx.value(self.given[parameter], self.node, want)

    def given_or_none(self, parameter: str) -> Value | None:
        v = self.given[parameter]
        return None if isinstance(v, Static) and v.value is None else v

    def items(self, parameter: str) -> list[Value]:
        """The parts of a tuple or vector, or the only number."""
        v = self.given[parameter]
        if isinstance(v, Static) and isinstance(v.value, tuple | list):
            v = Several(tuple(map(Static, v.value)))
        items: list[Value] = list(v.items) if isinstance(v, Several) else [v]
        if isinstance(v, Op) and (same := types.components(v.type)) and not isinstance(v.type, types.Scalar):
            items = [self.ctx.emit("extract", same[0], v, node=self.node, index=k) for k in range(same[1])]
        if isinstance(v, Op) and isinstance(v.type, types.Tuple):
            items = [self.ctx.emit("extract", t, v, node=self.node, index=k) for k, t in enumerate(v.type.items)]
        return items

    def indices(self, parameter: str, count: int) -> list[Value]:
        """One index per dimension; zeros where none are given."""
        if self.given_or_none(parameter) is None:
            return [Static(0)] * count
        items = self.items(parameter)
        if len(items) != count:
            raise self.error(f"'{parameter}' needs {count} number{'s' * (count > 1)}, {len(items)} are given")
        return items

    def ints(self, parameter: str, count: int) -> list[Op]:
        """The same as int32 values at run time."""
        found = [self.ctx.value(v, self.node, types.int32) for v in self.indices(parameter, count)]
        return [to_int32(self.ctx, v, self.node) for v in found]


Lower = Callable[[Call], Value]


def tile_function(name: str, parameters: str = "", **defaults: Any) -> Callable[[Lower], Lower]:
    """Registers the lowering of a tile function with these parameters, in order; those without a default are needed.

    Those that stand behind a *, or only among the defaults behind one, are given by name.
    """
    listed = parameters.split()
    names = [n for n in listed if n != "*"] + [d for d in defaults if d not in listed]
    positional = listed.index("*") if "*" in listed else len(names)

    def register(lower: Lower) -> Lower:
        def call(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
            return lower(Call(ctx, name, match(ctx, name, (names, positional), defaults, args, kwargs, node), node))

        INTRINSICS[name] = call
        return lower

    return register


def match(ctx: Lowering, name: str, parameters: tuple[list[str], int], defaults: dict[str, Any], args: list[Value],
          kwargs: dict[str, Value], node: ast.AST) -> dict[str, Value]:  # fmt: skip
    """The arguments by parameter; of the parameters, so many are given by position."""
    names, positional = parameters
    if len(args) > positional:
        raise ctx.error(node, f"{name}() accepts at most {positional} positional arguments, got {len(args)}")
    given: dict[str, Value] = dict(zip(names, args, strict=False))
    for key, value in kwargs.items():
        if key not in names:
            raise ctx.error(node, f"{name}() has no parameter '{key}'")
        if key in given:
            raise ctx.error(node, f"{name}() is given '{key}' twice")
        given[key] = value
    for key in names:
        if key not in given:
            if key not in defaults:
                raise ctx.error(node, f"{name}() needs an argument for '{key}'")
            given[key] = Static(defaults[key])
    return given
