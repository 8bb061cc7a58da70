"""`vector`, `matrix`, `quaternion`, `transformation` in kernels: values whose type follows from the arguments.

`vector(x, y, z)` takes the type of its numbers; `vector(s, length=3, dtype=float32)` is filled; without values, `dtype`
and the size make a zero. In kernels `types.vector` and `vector` are the same.
"""

from __future__ import annotations

import ast
from typing import Any

from engine.compiler import types
from engine.compiler.frontend.constructors import construct
from engine.compiler.frontend.context import Lowering, Several, Static, Value, type_of
from engine.compiler.frontend.intrinsics import INTRINSICS, Lower, intrinsic
from engine.compiler.values import matrix, quaternion, transformation, vector

TYPE_MAKERS: dict[Any, str] = {
    vector: "vector",
    matrix: "matrix",
    quaternion: "quaternion",
    transformation: "transformation",
}
_FACTORIES = {name: maker for maker, name in TYPE_MAKERS.items()}


def _known(ctx: Lowering, v: Value, name: str, node: ast.AST) -> Any:
    if isinstance(v, Static):
        return v.value
    if isinstance(v, Several):
        return tuple(_known(ctx, item, name, node) for item in v.items)
    raise ctx.error(node, f"{name}() needs a size and a dtype that are known while compiling")


def _dtype(ctx: Lowering, kwargs: dict[str, Value], values: list[Value], name: str,
           node: ast.AST) -> types.Scalar:  # fmt: skip
    """The component type: as given, else that of the values."""
    given = kwargs.pop("dtype", None)
    if given is not None:
        dtype = types.of_annotation(_known(ctx, given, "dtype", node))
        if not isinstance(dtype, types.Scalar):
            raise ctx.error(node, f"dtype must be a scalar type, got {dtype!r}")
        return dtype
    kinds: list[types.Scalar] = []
    for v in values:
        t = type_of(v)
        same = types.components(t) if t is not None else None
        if same is None:
            raise ctx.error(node, f"a {name} is made of numbers")
        kinds.append(same[0])
    if any(k != kinds[0] for k in kinds):
        raise ctx.error(node, f"all values given when constructing a {name} must have the same type")
    return kinds[0] if kinds else types.float32


def _maker(name: str) -> Lower:
    def lower(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
        if args and isinstance(args[-1], Static) and isinstance(args[-1].value, types.Scalar | type):
            return Static(_FACTORIES[name](*[_known(ctx, a, name, node) for a in args]))  # `vector(3, dtype)`: the type
        kwargs = dict(kwargs)
        size = kwargs.pop("length" if name == "vector" else "shape", None)
        dtype = _dtype(ctx, kwargs, [*args, *kwargs.values()], name, node)
        extent = None if size is None else _known(ctx, size, name, node)
        t = _type_for(ctx, name, args, dtype, extent, node)
        return construct(ctx, t, args, kwargs, node)

    return lower


def _type_for(ctx: Lowering, name: str, args: list[Value], dtype: types.Scalar, extent: Any,
              node: ast.AST) -> types.Type:  # fmt: skip
    if name == "quaternion":
        return types.Quat(dtype)
    if name == "transformation":
        return types.Transform(dtype)
    whole = type_of(args[0]) if len(args) == 1 else None
    if name == "vector":
        if extent is None and not args:
            raise ctx.error(node, "the `length` argument must be specified when zero-initializing a vector")
        if extent is not None and isinstance(whole, types.Vector) and whole.length != extent:
            raise ctx.error(node, f"incompatible vector of length {extent} given when copy constructing a vector of "
                                  f"length {whole.length}")  # fmt: skip
        if extent is not None and len(args) not in (0, 1, extent):
            raise ctx.error(node, f"incompatible number of values given ({len(args)}) when constructing a vector of "
                                  f"length {extent}")  # fmt: skip
        if extent is None:
            extent = whole.length if isinstance(whole, types.Vector) else len(args)
        if not isinstance(extent, int) or extent < 1:
            raise ctx.error(node, "vector() needs numbers, or a length")
        return types.Vector(dtype, extent)
    if extent is None and isinstance(whole, types.Matrix):
        return types.Matrix(dtype, whole.rows, whole.cols)
    is_pair = isinstance(extent, tuple | list) and len(extent) == 2
    if not is_pair or not all(isinstance(e, int) and e > 0 for e in extent):
        raise ctx.error(node, "the `shape` argument must be specified when initializing a matrix by value")
    if len(args) > 1 and len(args) != extent[0] * extent[1]:
        raise ctx.error(node, f"incompatible number of values given ({len(args)}) when constructing a matrix of shape "
                              f"{tuple(extent)}")  # fmt: skip
    return types.Matrix(dtype, *extent)


for _name in TYPE_MAKERS.values():
    INTRINSICS[_name] = _maker(_name)


@intrinsic("ref")
def lower_ref(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    raise ctx.error(node, "ref is an annotation: `def f(x: ref[float])`")
