"""What threads of one block do together: where they stand, barriers, shared arrays, values of other lanes, votes."""

from __future__ import annotations

import ast

from engine.compiler import types
from engine.compiler.frontend.context import Lowering, Static, Value
from engine.compiler.frontend.intrinsics import INTRINSICS, intrinsic, local_array
from engine.compiler.frontend.parts import to_int32
from engine.compiler.ir import Op
from engine.compiler.ops import BLOCK_VALUES

LAYOUTS = ("row_major", "column_major")


def _arguments(ctx: Lowering, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST,
               *names: str) -> list[Value]:  # fmt: skip
    """The arguments in the order of `names`, all of which are needed."""
    given = dict(zip(names, args, strict=False)) | kwargs
    if len(args) > len(names) or set(given) != set(names) or set(names[: len(args)]) & set(kwargs):
        raise ctx.error(node, f"{name}() takes {', '.join(names) or 'no arguments'}")
    return [given[n] for n in names]


def _block_value(name: str) -> None:
    def lower(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
        _arguments(ctx, name, args, kwargs, node)
        return ctx.emit("block_value", types.int32, node=node, name=name)

    INTRINSICS[name] = lower


for _name in BLOCK_VALUES:
    _block_value(_name)


@intrinsic("sync_threads")
def lower_sync_threads(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    _arguments(ctx, "sync_threads", args, kwargs, node)
    return ctx.emit("barrier", types.void, node=node, scope="block")


@intrinsic("sync_warp")
def lower_sync_warp(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """`sync_warp()`, or `sync_warp(mask)` with a bit for each lane that takes part."""
    operands = []
    if args or kwargs:
        (mask,) = _arguments(ctx, "sync_warp", args, kwargs, node, "mask")
        operands = [_converted(ctx, mask, types.uint32, "sync_warp", node)]
    return ctx.emit("barrier", types.void, *operands, node=node, scope="warp")


def _converted(ctx: Lowering, v: Value, t: types.Scalar, name: str, node: ast.AST) -> Op:
    if isinstance(v, Static) and isinstance(v.value, int):
        return ctx.const(v.value, t, node)
    value = ctx.value(v, node, t)
    if not isinstance(value.type, types.Scalar) or not value.type.is_int:
        raise ctx.error(node, f"{name}() takes a {t!r}, not {value.type!r}")
    return value if value.type == t else ctx.emit("cast", t, value, node=node)


@intrinsic("shared_array")
def lower_shared_array(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """`shared.array(shape=(16, 16), dtype=float, layout="row_major")`: one array for all threads of the block."""
    given = dict(zip(("shape", "dtype", "layout"), args, strict=False)) | kwargs
    layout = given.pop("layout", Static("row_major"))
    if not isinstance(layout, Static) or layout.value not in LAYOUTS:
        raise ctx.error(node, f"the layout of a shared array is one of {', '.join(map(repr, LAYOUTS))}")
    t = local_array(ctx, "shared.array", given, node)
    t = types.LocalArray(t.dtype, t.shape, layout.value == "column_major")
    return ctx.emit("local", t, node=node, shared=True)


def _shuffle(mode: str, second: str) -> None:
    name = f"warp_shuffle_{mode}"

    def lower(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
        given, by = _arguments(ctx, name, args, kwargs, node, "value", second)
        value = ctx.value(given, node)
        if not types.leaves(value.type) or any(not isinstance(t, types.Scalar) for _, t in types.leaves(value.type)):
            raise ctx.error(node, f"{name}() moves numbers and what consists of them, not {value.type!r}")
        lane = to_int32(ctx, ctx.value(by, node, types.int32), node)
        return ctx.emit("shuffle", value.type, value, lane, node=node, mode=mode)

    INTRINSICS[name] = lower


for _mode, _second in (("down", "delta"), ("up", "delta"), ("xor", "mask"), ("idx", "lane")):
    _shuffle(_mode, _second)


def _vote(mode: str) -> None:
    name = f"warp_{mode}"

    def lower(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
        (given,) = _arguments(ctx, name, args, kwargs, node, "predicate")
        value = ctx.value(given, node, types.bool_)
        if not isinstance(value.type, types.Scalar):
            raise ctx.error(node, f"{name}() takes a truth value, not {value.type!r}")
        if value.type != types.bool_:
            value = ctx.emit("cast", types.bool_, value, node=node)
        return ctx.emit("vote", types.uint32 if mode == "ballot" else types.bool_, value, node=node, mode=mode)

    INTRINSICS[name] = lower


for _mode in ("ballot", "any", "all"):
    _vote(_mode)
