"""Names of the language that are neither primitives nor library functions: thread index, local arrays, atomics, len."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import Any

from engine.compiler import ops, types
from engine.compiler.frontend.context import Lowering, Several, Static, Value, type_of
from engine.compiler.frontend.expressions import check_indices
from engine.compiler.frontend.parts import array_index, to_array, to_int32
from engine.compiler.ir import Op
from engine.compiler.values import value_class

Lower = Callable[[Lowering, list[Value], dict[str, Value], ast.AST], Value]
INTRINSICS: dict[str, Lower] = {}
PYTHON_INTRINSICS: dict[Any, str] = {builtins.len: "len", builtins.type: "type", builtins.print: "print"}


def intrinsic(name: str) -> Callable[[Lower], Lower]:
    """Registers the lowering of an intrinsic."""
    return lambda lower: INTRINSICS.setdefault(name, lower)


@intrinsic("tid")
def lower_tid(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """The index of this thread; unpacking it into n names asks for n dimensions."""
    if not ctx.function.is_kernel:
        raise ctx.error(node, "tid() is known in kernels only", "pass the index to the function")
    return ctx.emit("tid", types.int32, node=node, axis=0, ndim=1)


@intrinsic("len")
def lower_len(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    if len(args) != 1:
        raise ctx.error(node, "len() takes one argument")
    value = args[0]
    if isinstance(value, Several):
        return Static(len(value.items))
    if isinstance(value, Static):
        if not hasattr(value.value, "__len__"):
            raise ctx.error(node, f"{value.value!r} has no length")
        return Static(len(value.value))
    match value.type:
        case types.Array():
            return ctx.emit("shape", types.int32, value, node=node, dim=0)
        case types.LocalArray(shape=shape):
            return Static(shape[0])
        case types.Matrix(rows=rows):
            return Static(rows)
        case types.Tuple(items):
            return Static(len(items))
        case types.Table() as table if len(table.symbols) == 1:
            return ctx.emit("count", types.int32, value, node=node, symbol=table.symbols[0])
    same = types.components(value.type)
    if same and not isinstance(value.type, types.Scalar):
        return Static(same[1])
    raise ctx.error(node, f"{value.type!r} has no length")


@intrinsic("type")
def lower_type(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """`type(x)`: the type object, which can be called to convert or construct."""
    t = type_of(args[0]) if len(args) == 1 else None
    if t is None:
        raise ctx.error(node, "type() takes one value")
    if isinstance(t, types.Scalar | types.Array | types.LocalArray | types.Tuple):
        return Static(t)
    return Static(value_class(t))


@intrinsic("zeros")
def lower_zeros(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """`zeros(shape=8, dtype=vec3)`: a fixed array of this thread."""
    given = dict(zip(("shape", "dtype"), args, strict=False)) | kwargs
    return ctx.emit("local", local_array(ctx, "zeros", given, node), node=node)


def local_array(ctx: Lowering, name: str, given: dict[str, Value], node: ast.AST) -> types.LocalArray:
    """The type of an array in a kernel, from a shape and a dtype that are known while compiling."""
    shape, dtype = given.get("shape"), given.get("dtype", Static(float))
    if not isinstance(shape, Static) or not isinstance(dtype, Static):
        raise ctx.error(node, f"{name}() in a kernel needs a shape and a dtype that are known while compiling")
    extents = shape.value if isinstance(shape.value, tuple | list) else (shape.value,)
    if not all(isinstance(e, int) and e > 0 for e in extents):
        raise ctx.error(node, f"the shape of a local array consists of positive whole numbers, not {shape.value!r}")
    try:
        element = types.of_annotation(dtype.value)
    except TypeError as error:
        raise ctx.error(node, str(error)) from None
    zero_check = [leaf for _, leaf in types.leaves(element) if not isinstance(leaf, types.Scalar)]
    if zero_check:
        raise ctx.error(node, f"{element!r} cannot be the element of a local array")
    return types.LocalArray(element, tuple(extents))


def lower_array(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """`array(ptr=address, shape=(n, m), dtype=float)`: the memory at an address, as an array without gaps."""
    given = dict(zip(("ptr", "shape", "dtype"), args, strict=False)) | kwargs
    if set(given) != {"ptr", "shape", "dtype"} or not isinstance(given["dtype"], Static):
        raise ctx.error(node, "array() in a kernel takes ptr, shape and dtype")
    shape = given["shape"]
    if isinstance(shape, Several):
        extents = list(shape.items)
    elif isinstance(shape, Static) and isinstance(shape.value, tuple | list):
        extents = [Static(n) for n in shape.value]
    else:
        extents = [shape]
    element = types.of_annotation(given["dtype"].value)
    address = ctx.value(given["ptr"], node, types.uint64)
    if address.type not in (types.uint64, types.int64):
        raise ctx.error(node, f"ptr is a uint64, not {address.type!r}")
    if address.type == types.int64:
        address = ctx.emit("cast", types.uint64, address, node=node)
    ints = [to_int32(ctx, ctx.value(n, node, types.int32), node) for n in extents]
    return ctx.emit("array_at", types.Array(element, len(ints)), address, *ints, node=node)


def _vectors(ctx: Lowering, args: list[Value], name: str, node: ast.AST) -> tuple[list[Op], types.Vector]:
    """The arguments as vectors of one type."""
    vectors = [ctx.value(a, node) for a in args]
    first = vectors[0].type if vectors else None
    if not isinstance(first, types.Vector) or any(v.type != first for v in vectors):
        raise ctx.error(node, f"{name}() takes vectors of one type")
    return vectors, first


@intrinsic("matrix_from_rows")
def lower_matrix_from_rows(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    rows, t = _vectors(ctx, args, "matrix_from_rows", node)
    flat = [ctx.emit("extract", t.dtype, row, node=node, index=c) for row in rows for c in range(t.length)]
    return ctx.emit("make", types.Matrix(t.dtype, len(rows), t.length), *flat, node=node)


@intrinsic("matrix_from_cols")
def lower_matrix_from_cols(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    cols, t = _vectors(ctx, args, "matrix_from_cols", node)
    flat = [ctx.emit("extract", t.dtype, col, node=node, index=r) for r in range(t.length) for col in cols]
    return ctx.emit("make", types.Matrix(t.dtype, t.length, len(cols)), *flat, node=node)


@intrinsic("identity")
def lower_identity(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    given = dict(zip(("n", "dtype"), args, strict=False)) | kwargs
    n, dtype = given.get("n"), given.get("dtype", Static(float))
    if not isinstance(n, Static) or not isinstance(dtype, Static) or not isinstance(n.value, int):
        raise ctx.error(node, "identity() needs a size and a dtype that are known while compiling")
    t = types.of_annotation(dtype.value)
    if not isinstance(t, types.Scalar):
        raise ctx.error(node, f"identity() makes matrices of scalars, not of {t!r}")
    flat = [ctx.const(int(r == c), t, node) for r in range(n.value) for c in range(n.value)]
    return ctx.emit("make", types.Matrix(t, n.value, n.value), *flat, node=node)


def _atomic(name: str) -> Lower:
    def lower(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
        """`atomic_add(array, i, …, value)`: the old value. `atomic_cas(array, i, …, compare, value)`."""
        array = args[0] if args else None
        if isinstance(array, Op) and isinstance(array.type, types.LocalArray):
            array = to_array(ctx, array, node)
            args = [array, *args[1:]]
        if not isinstance(array, Op) or not isinstance(array.type, types.Array):
            raise ctx.error(node, f"atomic_{name}() works on an array element")
        t = array.type
        extra = 2 if name == "cas" else 1
        if len(args) != 1 + t.ndim + extra:
            raise ctx.error(
                node, f"atomic_{name}() takes the array, {t.ndim} indices and {extra} value{'s' * (extra > 1)}"
            )
        check_indices(ctx, args[1 : 1 + t.ndim], node)
        indices = [array_index(ctx, array, d, a, node) for d, a in enumerate(args[1 : 1 + t.ndim])]
        same = types.components(t.dtype)
        if same is None:
            raise ctx.error(node, f"atomic_{name}() does not work on {t.dtype!r}")
        values = [ctx.value(a, node, t.dtype) for a in args[1 + t.ndim :]]
        for v in values:
            if v.type != t.dtype:
                raise ctx.error(node, f"atomic_{name}() on {t!r} takes {t.dtype!r}, got {v.type!r}")
        if name in ("and", "or", "xor") and not same[0].is_int:
            raise ctx.error(node, f"atomic_{name}() works on whole numbers, not {t.dtype!r}")
        return ctx.emit("atomic", t.dtype, array, *indices, *values, node=node, op=name, offset=0)

    return lower


@intrinsic("prefetch")
def lower_prefetch(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """`prefetch(array, i, …)`: no effect but on time."""
    array = args[0] if args else None
    if not isinstance(array, Op) or not isinstance(array.type, types.Array) or len(args) != 1 + array.type.ndim:
        raise ctx.error(node, "prefetch() takes an array and an index for each of its dimensions")
    check_indices(ctx, args[1:], node)
    indices = [array_index(ctx, array, d, a, node) for d, a in enumerate(args[1:])]
    return ctx.emit("prefetch", types.void, array, *indices, node=node)


for _name in ops.ATOMICS:
    INTRINSICS[f"atomic_{_name}"] = _atomic(_name)
