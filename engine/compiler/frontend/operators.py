"""Arithmetic, comparison and truth on values: literals adapt, types must agree, matrices and rotations multiply."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from engine.compiler import ops, types
from engine.compiler.frontend.context import (
    HOOKS,
    Lowering,
    Several,
    Static,
    Value,
    expression,
    is_cheap,
    literal_fits,
    static_type,
    type_of,
)
from engine.compiler.frontend.functions import call_function, call_library
from engine.compiler.frontend.unsupported import FUNCTIONS
from engine.compiler.function import Func
from engine.compiler.ir import Op, Region
from engine.compiler.library.remainder import floor_divide

OPERATORS: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "shl", ast.RShift: "shr",
    ast.MatMult: "matmul", ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip
SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "pow": "**", "and": "&", "or": "|",
    "xor": "^", "shl": "<<", "shr": ">>", "matmul": "@", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">",
    "ge": ">=",
}  # fmt: skip
PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "pow": operator.pow, "and": operator.and_, "or": operator.or_,
    "xor": operator.xor, "shl": operator.lshift, "shr": operator.rshift, "matmul": operator.matmul,
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
UNARY: dict[type, str] = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert", ast.Not: "unot"}
PYTHON_UNARY: dict[str, Callable[[Any], Any]] = {"neg": operator.neg, "pos": operator.pos, "invert": operator.invert}
# products that are not taken by component: (left kind, right kind) → library function
PRODUCTS = {
    (types.Matrix, types.Matrix): "mul_mat_mat", (types.Matrix, types.Vector): "mul_mat_vec",
    (types.Vector, types.Matrix): "mul_vec_mat", (types.Quat, types.Quat): "mul_quat_quat",
    (types.Transform, types.Transform): "mul_transform_transform",
}  # fmt: skip
COMPONENTWISE = (types.Vector, types.Matrix, types.Quat, types.Transform)


@expression(ast.BinOp)
def lower_binary(ctx: Lowering, node: ast.BinOp) -> Value:
    return binary(ctx, OPERATORS[type(node.op)], ctx.expression(node.left), ctx.expression(node.right), node)


def binary(ctx: Lowering, name: str, a: Value, b: Value, node: ast.AST) -> Value:
    """`a name b` for any two values."""
    if name == "mod" and isinstance(a, Static) and isinstance(a.value, str):
        raise ctx.error(node, "a text is not formatted in a kernel", FUNCTIONS[str])
    if isinstance(a, Static) and isinstance(b, Static):
        if name == "div" and type(a.value) is int and type(b.value) is int:
            return Static(ops.fold("div", types.int64, [a.value, b.value]))  # toward zero, as of variables
        try:
            return Static(PYTHON[name](a.value, b.value))
        except ZeroDivisionError:
            if name == "div" and isinstance(a.value, float) or isinstance(b.value, float):
                return Static(ops.fold("div", types.float64, [a.value, b.value]))  # IEEE, as at run time
            raise ctx.error(node, "integer division by zero") from None
        except (TypeError, ValueError, ArithmeticError) as error:
            raise ctx.error(node, str(error)) from None
    if isinstance(a, Several) or isinstance(b, Several):
        raise ctx.error(node, f"'{SYMBOLS[name]}' does not work on tuples in a kernel")
    if any(isinstance(v, Op) and isinstance(v.type, types.Tile) for v in (a, b)):
        return HOOKS["tile operator"](ctx, name, a, b, node)
    own = user_operator(ctx, name, a, b, node)
    if own is not None:
        return own
    if name == "pow":
        return power(ctx, a, b, node)
    x, y = operands(ctx, a, b, node)
    product = PRODUCTS.get((type(x.type), type(y.type))) if name in ("mul", "matmul") else None
    if product:
        return call_library(ctx, product, [x, y], node)
    if name == "matmul":
        raise mismatch(ctx, name, x, y, node)
    if name == "mod" and (same := types.components(x.type)) and same[0].is_float and x.type == y.type:
        return call_library(ctx, "mod", [x, y], node)
    if name == "floordiv" and (same := types.components(x.type)) and same[0].is_float and x.type == y.type:
        return floor_quotient(ctx, same[0], x, y, node)
    return elementwise(ctx, name, x, y, node)


def floor_quotient(ctx: Lowering, dtype: types.Scalar, x: Op, y: Op, node: ast.AST) -> Value:
    """`x // y` of floats, of aggregates by component."""
    if isinstance(x.type, types.Scalar):
        if dtype.bits > 16:
            return call_function(ctx, floor_divide, [x, y], node)
        wide = [ctx.emit("cast", types.float32, v, node=node) for v in (x, y)]
        quotient = ctx.value(call_function(ctx, floor_divide, wide, node), node)
        return ctx.emit("cast", dtype, quotient, node=node)
    parts = []
    for k in range(len(types.leaves(x.type))):
        a, b = (ctx.emit("extract", dtype, v, node=node, index=k) for v in (x, y))
        parts.append(ctx.value(floor_quotient(ctx, dtype, a, b, node), node))
    return ctx.emit("make", x.type, *parts, node=node)


# functions of users that give operators a meaning for structs
USER_NAMES = {name: name for name in ("add", "sub", "mul", "div", "floordiv", "mod")} | {"matmul": "mul"}


def user_operator(ctx: Lowering, name: str, a: Value, b: Value, node: ast.AST) -> Value | None:
    """`a + b` of structs calls the function `add` that is in scope, if one takes them."""
    if not any(isinstance(v, Op) and isinstance(v.type, types.Struct) for v in (a, b)) or name not in USER_NAMES:
        return None
    try:
        function = ctx.source.lookup(USER_NAMES[name])
    except KeyError:
        return None
    return HOOKS["call func"](ctx, function, [a, b], {}, node) if isinstance(function, Func) else None


def power(ctx: Lowering, a: Value, b: Value, node: ast.AST) -> Value:
    """`a ** b`; a float to the 2nd, 3rd or 4th power is one or two products, everything else the library's pow."""
    exponent = b.value if isinstance(b, Static) and b.is_number else None
    if not (isinstance(a, Op) and isinstance(a.type, types.Scalar) and a.type.is_float and exponent in (2, 3, 4)):
        return call_library(ctx, "pow", [a, b], node)
    square = ctx.emit("mul", a.type, a, a, node=node)
    return square if exponent == 2 else ctx.emit("mul", a.type, square, a if exponent == 3 else square, node=node)


def operands(ctx: Lowering, a: Value, b: Value, node: ast.AST) -> tuple[Op, Op]:
    """Both as run-time values; a literal takes the (component) type of the other side."""
    ta, tb = type_of(a), type_of(b)
    x = ctx.value(a, node, _component(tb))
    y = ctx.value(b, node, _component(ta))
    return x, y


def _component(t: types.Type | None) -> types.Type | None:
    same = types.components(t) if t is not None else None
    return same[0] if same else None


def elementwise(ctx: Lowering, name: str, x: Op, y: Op, node: ast.AST) -> Op:
    """A primitive on scalars, on equal aggregates by component, or on an aggregate and a scalar."""
    tx, ty = x.type, y.type
    row = ops.ELEMENTWISE[name]
    if row.result == "bool" and isinstance(tx, COMPONENTWISE):
        return compare_all(ctx, name, x, y, node)
    if (
        isinstance(tx, types.Scalar)
        and isinstance(ty, COMPONENTWISE)
        and tx == _component(ty)
        and name in ("mul", "div")
    ):
        x = splat(ctx, ty, x, node)
    elif (
        isinstance(ty, types.Scalar)
        and isinstance(tx, COMPONENTWISE)
        and ty == _component(tx)
        and name in ("mul", "div")
    ):
        y = splat(ctx, tx, y, node)
    elif tx != ty or (isinstance(tx, COMPONENTWISE) and name in ("mul", "div")):
        raise mismatch(ctx, name, x, y, node)
    dtype = _component(x.type)
    if not isinstance(dtype, types.Scalar) or dtype.kind not in row.accepts:
        raise mismatch(ctx, name, x, y, node)
    return ctx.emit(name, types.bool_ if row.result == "bool" else x.type, x, y, node=node)


def splat(ctx: Lowering, t: types.Type, x: Op, node: ast.AST) -> Op:
    """An aggregate whose components are all `x`."""
    return ctx.emit("make", t, *[x] * len(types.leaves(t)), node=node)


def compare_all(ctx: Lowering, name: str, x: Op, y: Op, node: ast.AST) -> Op:
    """Equality of aggregates: of all components."""
    if name not in ("eq", "ne") or x.type != y.type:
        raise mismatch(ctx, name, x, y, node)
    dtype = _component(x.type)
    assert dtype is not None
    result = None
    for k in range(len(types.leaves(x.type))):
        pair = (ctx.emit("extract", dtype, v, node=node, index=k) for v in (x, y))
        one = ctx.emit(name, types.bool_, *pair, node=node)
        join = "and" if name == "eq" else "or"
        result = one if result is None else ctx.emit(join, types.bool_, result, one, node=node)
    return result if result is not None else ctx.const(name == "eq", types.bool_, node)


def mismatch(ctx: Lowering, name: str, x: Op, y: Op, node: ast.AST) -> Exception:
    """What is wrong with two operands, and how to mend it."""
    tx, ty = x.type, y.type
    hint = ""
    if isinstance(tx, types.Scalar) and isinstance(ty, types.Scalar) and tx != ty:
        hint = f"convert one of them, as in {ty!r}(…)"
    elif isinstance(tx, types.Vector) and tx == ty and name in ("mul", "div"):
        hint = f"use dot(), cross() or cw_{name}()"
    return ctx.error(node, f"'{SYMBOLS.get(name, name)}' does not take {tx!r} and {ty!r}", hint)


@expression(ast.UnaryOp)
def lower_unary(ctx: Lowering, node: ast.UnaryOp) -> Value:
    return unary(ctx, UNARY[type(node.op)], ctx.expression(node.operand), node)


def unary(ctx: Lowering, name: str, value: Value, node: ast.AST) -> Value:
    """`-x`, `+x`, `~x`, `not x` as neg, pos, invert, unot."""
    if name == "unot":
        value = truth(ctx, value, node)
        return Static(not value.value) if isinstance(value, Static) else ctx.emit("not", types.bool_, value, node=node)
    if isinstance(value, Static):
        try:
            return Static(PYTHON_UNARY[name](value.value))
        except TypeError as error:
            raise ctx.error(node, str(error)) from None
    if name == "pos":
        return value
    if isinstance(value, Op) and isinstance(value.type, types.Tile):
        return HOOKS["tile unary"](ctx, name, value, node)
    name = "neg" if name == "neg" else "not"
    dtype = _component(type_of(value))
    if (
        not isinstance(value, Op)
        or not isinstance(dtype, types.Scalar)
        or dtype.kind not in ops.ELEMENTWISE[name].accepts
    ):
        raise ctx.error(node, f"'{'-' if name == 'neg' else '~'}' does not take {type_of(value)!r}")
    return ctx.emit(name, value.type, value, node=node)


@expression(ast.Compare)
def lower_compare(ctx: Lowering, node: ast.Compare) -> Value:
    left = ctx.expression(node.left)
    result: Value | None = None
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        right = ctx.expression(right_node)
        one = compare(ctx, op, left, right, node)
        result = one if result is None else binary(ctx, "and", result, one, node)
        left = right
    assert result is not None
    return result


def compare(ctx: Lowering, op: ast.cmpop, a: Value, b: Value, node: ast.AST) -> Value:
    if isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn):
        if not (isinstance(a, Static) and isinstance(b, Static)):
            hint = "compare numbers with ==" if isinstance(op, ast.Is | ast.IsNot) else ""
            raise ctx.error(node, "'is' and 'in' work on values known while compiling only", hint)
        test = {ast.Is: operator.is_, ast.IsNot: operator.is_not, ast.In: lambda x, y: x in y,
                ast.NotIn: lambda x, y: x not in y}[type(op)]  # fmt: skip
        return Static(test(a.value, b.value))
    if isinstance(a, Static) and isinstance(b, Static):  # `float` and `int` mean types where they are compared with one
        a, b = (Static(types.PYTHON[x.value]) if isinstance(x.value, type) and x.value in types.PYTHON
                and isinstance(other.value, types.Type) else x for x, other in ((a, b), (b, a)))  # fmt: skip
    return binary(ctx, OPERATORS[type(op)], a, b, node)


def truth(ctx: Lowering, v: Value, node: ast.AST) -> Op | Static:
    """`v` as a condition: a bool, or a number that is not zero."""
    if isinstance(v, Static):
        return Static(bool(v.value))
    if isinstance(v, Op) and v.type == types.bool_:
        return v
    if isinstance(v, Op) and isinstance(v.type, types.Scalar):
        return ctx.emit("ne", types.bool_, v, ctx.const(0, v.type, node), node=node)
    if isinstance(v, Op) and isinstance(v.type, types.Array):  # is there an array?
        at = ctx.emit("array_ptr", types.uint64, v, node=node)
        return ctx.emit("ne", types.bool_, at, ctx.const(0, types.uint64, node), node=node)
    raise ctx.error(node, f"{type_of(v)!r} is neither true nor false")


def only_if(ctx: Lowering, condition: Op | Static, node: ast.AST, body: Callable[[], None]) -> None:
    """Runs `body` where the condition holds."""
    if isinstance(condition, Static):
        if condition.value:
            body()
        return
    region = Region()
    with ctx.inside(region):
        body()
    ctx.emit("if", types.void, condition, node=node, regions=(region, Region()))


@expression(ast.BoolOp)
def lower_bool(ctx: Lowering, node: ast.BoolOp) -> Value:
    """`and` / `or`: the right side is evaluated only if the left does not decide."""
    is_and = isinstance(node.op, ast.And)
    result: Op | Static = truth(ctx, ctx.expression(node.values[0]), node.values[0])
    for right_node in node.values[1:]:
        if isinstance(result, Static):
            if bool(result.value) != is_and:
                return result
            result = truth(ctx, ctx.expression(right_node), right_node)
            continue
        region = Region()
        with ctx.inside(region):
            right = ctx.value(truth(ctx, ctx.expression(right_node), right_node), right_node)
        if is_cheap(region):
            ctx.region.ops.extend(region.ops)
            result = ctx.emit("and" if is_and else "or", types.bool_, result, right, node=node)
        else:
            result = _short_circuit(ctx, is_and, result, region, right, node)
    return result


def _short_circuit(ctx: Lowering, is_and: bool, left: Op, region: Region, right: Op, node: ast.AST) -> Op:
    slot = ctx.slot(types.bool_, "condition")
    ctx.emit("set", types.void, slot, left, node=node)
    with ctx.inside(region):
        ctx.emit("set", types.void, slot, right, node=node)
    empty = Region()
    ctx.emit("if", types.void, left, node=node, regions=(region, empty) if is_and else (empty, region))
    return ctx.emit("get", types.bool_, slot, node=node)


@expression(ast.IfExp)
def lower_ternary(ctx: Lowering, node: ast.IfExp) -> Value:
    condition = truth(ctx, ctx.expression(node.test), node.test)
    if isinstance(condition, Static):
        return ctx.expression(node.body if condition.value else node.orelse)
    regions = Region(), Region()
    values: list[Value] = []
    for region, branch in zip(regions, (node.body, node.orelse), strict=True):
        with ctx.inside(region):
            values.append(ctx.expression(branch))
    wants = [type_of(values[1]), type_of(values[0])]
    results: list[Op] = []
    for k, region in enumerate(regions):
        with ctx.inside(region):
            v = values[k]
            want = wants[k]
            if isinstance(v, Static) and isinstance(values[1 - k], Static):
                want = _wider(v.value, values[1 - k])
            results.append(ctx.value(v, node, want))
    a, b = results
    if a.type != b.type:
        raise ctx.error(node, f"the two sides of 'if … else' are {a.type!r} and {b.type!r}")
    if not a.type.is_value:
        raise ctx.error(node, f"{a.type!r} cannot be chosen at run time")
    if all(is_cheap(region) for region in regions):
        for region in regions:
            ctx.region.ops.extend(region.ops)
        return ctx.emit("select", a.type, condition, a, b, node=node)
    slot = ctx.slot(a.type, "choice")
    for region, result in zip(regions, results, strict=True):
        with ctx.inside(region):
            ctx.emit("set", types.void, slot, result, node=node)
    ctx.emit("if", types.void, condition, node=node, regions=regions)
    return ctx.emit("get", a.type, slot, node=node)


def _wider(value: Any, other: Value) -> types.Type | None:
    """Two literals: a whole number beside a fraction is a float."""
    t = static_type(other.value) if isinstance(other, Static) else None
    return t if isinstance(t, types.Scalar) and literal_fits(value, t) else None
