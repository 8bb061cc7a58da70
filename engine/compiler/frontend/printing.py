"""print, printf and the expect functions, lowered to `print` ops.

The C library's printf carries out a `print` op, which has a C format and scalar operands. One statement is one call, so
that lines of different threads do not mix; what a kernel has printed is flushed when a part of its grid is done.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Sequence

from engine.compiler import types
from engine.compiler.frontend.context import Lowering, Several, Static, Value, static_type, type_of
from engine.compiler.frontend.contracts import unless
from engine.compiler.frontend.intrinsics import intrinsic
from engine.compiler.frontend.operators import binary
from engine.compiler.ir import Op

MAX_VALUES = 32  # as many as Warp passes on
_CONVERSION = re.compile(r"%(?:%|([-+ #0]*\d*(?:\.\d+)?)(?:hh|h|ll|l|z|j)?([diouxXeEfFgGcsp]))")


@intrinsic("print")
def lower_print(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """`print(a, b, …)`: the values apart by spaces; vectors on one line, matrices on one line for each row."""
    kwargs.pop("end", None)
    if kwargs:
        raise ctx.error(node, f"print() in a kernel has no parameter '{next(iter(kwargs))}'")
    parts = [_shown(ctx, value, node) for value in args]
    text = " ".join(format for format, _ in parts)
    _emit(ctx, text if text.endswith("\n") else text + "\n", [v for _, values in parts for v in values], node)
    return Static(None)


@intrinsic("printf")
def lower_printf(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """`printf("%d %f", i, x)`: a C format that is known while compiling, and at most 32 numbers."""
    if kwargs or not args or not (isinstance(args[0], Static) and isinstance(args[0].value, str)):
        raise ctx.error(node, "printf() takes a format string and numbers")
    if len(args) - 1 > MAX_VALUES:
        raise ctx.error(node, "the maximum number of variadic arguments that can be passed to `printf` is 32")
    values = [ctx.value(value, node) for value in args[1:]]
    for value in values:
        if not isinstance(value.type, types.Scalar):
            raise ctx.error(node, f"printf() prints numbers, not {value.type!r}", "use print(), or give its components")
    left = list(values)
    wide: list[Op] = []

    def convert(found: re.Match[str]) -> str:
        if found.group(0) == "%%":
            return "%%"
        flags, letter = found.groups()
        if not left:
            raise ctx.error(node, f"printf(): '{found.group(0)}' has no value")
        if letter in "sp":
            raise ctx.error(node, f"printf(): '{found.group(0)}' prints no number")
        value = left.pop(0)
        if letter in "eEfFgG":
            wide.append(_cast(ctx, types.float64, value, node))
            return f"%{flags}{letter}"
        to = types.int32 if letter == "c" else types.int64 if letter in "di" else types.uint64
        if letter in "uoxX" and isinstance(value.type, types.Scalar) and value.type.kind == "i":
            unsigned = types.Scalar(f"uint{value.type.bits}", "u", value.type.bits)  # C shows the value's own bits
            value = _cast(ctx, unsigned, value, node)
        wide.append(_cast(ctx, to, value, node))
        return f"%{flags}{'' if letter == 'c' else 'll'}{letter}"

    text = _CONVERSION.sub(convert, args[0].value)
    if left:
        raise ctx.error(node, f"printf(): {len(values)} values are given, the format prints {len(values) - len(left)}")
    ctx.emit("print", types.void, *wide, node=node, format=text)
    return Static(None)


def _cast(ctx: Lowering, to: types.Scalar, value: Op, node: ast.AST) -> Op:
    return value if value.type == to else ctx.emit("cast", to, value, node=node)


def _emit(ctx: Lowering, text: str, values: Sequence[Op], node: ast.AST) -> None:
    ctx.emit("print", types.void, *values, node=node, format=text)


def _shown(ctx: Lowering, value: Value, node: ast.AST) -> tuple[str, list[Op]]:
    """The C format of a value and the scalars that it takes."""
    if isinstance(value, Several):
        parts = [_shown(ctx, item, node) for item in value.items]
        return ", ".join(f for f, _ in parts), [v for _, values in parts for v in values]
    if isinstance(value, Static) and static_type(value.value) is None:
        return str(value.value).replace("%", "%%"), []
    op = ctx.value(value, node)
    t = op.type
    if isinstance(t, types.Scalar):
        return _scalar(ctx, op, node)
    same = types.components(t)
    if same is None:
        return "<type without print implementation>", []
    shown = [_scalar(ctx, ctx.emit("extract", same[0], op, node=node, index=k), node) for k in range(same[1])]
    values = [v for _, vs in shown for v in vs]
    row = shown[0][0]
    if isinstance(t, types.Matrix):
        return "\n".join([" ".join([row] * t.cols) + " "] * t.rows), values
    return " ".join([row] * same[1]) + " ", values


def _scalar(ctx: Lowering, op: Op, node: ast.AST) -> tuple[str, list[Op]]:
    t = op.type
    assert isinstance(t, types.Scalar)
    if t.kind == "b":
        return "%s", [op]
    if t.is_float:
        return "%g", [_cast(ctx, types.float64, op, node)]
    to = types.int64 if t.kind == "i" else types.uint64
    return ("%lld" if t.kind == "i" else "%llu"), [_cast(ctx, to, op, node)]


# --- expectations -------------------------------------------------------------------------------------------------


def _two(ctx: Lowering, args: list[Value], name: str, node: ast.AST) -> tuple[Value, Value]:
    """Two values of one type; a literal takes the type of the other."""
    if len(args) != 2:
        raise ctx.error(node, f"{name}() takes two values")
    if all(isinstance(a, Static) for a in args):
        a, b = args
        assert isinstance(a, Static) and isinstance(b, Static)
        if isinstance(a.value, float) != isinstance(b.value, float):
            return Static(float(a.value)), Static(float(b.value))
        return a, b
    ta, tb = type_of(args[0]), type_of(args[1])
    a_op, b_op = ctx.value(args[0], node, tb), ctx.value(args[1], node, ta)
    if a_op.type != b_op.type:
        raise ctx.error(node, f"{name}() compares values of one type, not {a_op.type!r} and {b_op.type!r}",
                        f"convert one of them, as in {b_op.type!r}(…)")  # fmt: skip
    return a_op, b_op


def _expected(ctx: Lowering, name: str, condition: Value, a: Value, b: Value, node: ast.AST) -> None:
    """Prints the place and both values when the condition does not hold."""
    where = f"{os.path.basename(ctx.source.filename)}:{getattr(node, 'lineno', 0)}"
    text = f"Error, {where}: {name}() failed in {ctx.source.name}\n".replace("%", "%%")

    def tell() -> None:
        parts = [_shown(ctx, value, node) for value in (a, b)]
        shown = "".join(f"\t{letter} = {f}\n" for letter, (f, _) in zip("ab", parts, strict=True))
        _emit(ctx, text + shown, [v for _, values in parts for v in values], node)

    unless(ctx, condition, tell, node)


@intrinsic("expect_eq")
def lower_expect_eq(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """Prints an error unless both values are equal."""
    a, b = _two(ctx, args, "expect_eq", node)
    _expected(ctx, "expect_eq", binary(ctx, "eq", a, b, node), a, b, node)
    return Static(None)


@intrinsic("expect_neq")
def lower_expect_neq(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """Prints an error unless the values differ."""
    a, b = _two(ctx, args, "expect_neq", node)
    _expected(ctx, "expect_neq", binary(ctx, "ne", a, b, node), a, b, node)
    return Static(None)


@intrinsic("expect_near")
def lower_expect_near(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """Prints an error unless all components are within the tolerance (1e-6 unless given) of each other."""
    tolerance = args[2] if len(args) == 3 else kwargs.get("tolerance", Static(1.0e-6))
    a, b = _two(ctx, args[:2], "expect_near", node)
    x, y = ctx.value(a, node), ctx.value(b, node)
    same = types.components(x.type)
    if same is None or not same[0].is_float:
        raise ctx.error(node, f"expect_near() compares floats, not {x.type!r}")
    bound = ctx.value(tolerance, node, same[0])
    result: Op | None = None
    for k in range(same[1]):
        pair = [x, y] if isinstance(x.type, types.Scalar) else [
            ctx.emit("extract", same[0], v, node=node, index=k) for v in (x, y)]  # fmt: skip
        distance = ctx.emit("abs", same[0], ctx.emit("sub", same[0], *pair, node=node), node=node)
        one = ctx.emit("le", types.bool_, distance, bound, node=node)
        result = one if result is None else ctx.emit("and", types.bool_, result, one, node=node)
    assert result is not None
    _expected(ctx, "expect_near", result, x, y, node)
    return Static(None)
