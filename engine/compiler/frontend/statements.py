"""Statements: assignment, branches, loops, return."""

from __future__ import annotations

import ast
from typing import Any

from engine.compiler import types
from engine.compiler.frontend import tile_elements
from engine.compiler.frontend.context import (
    HOOKS,
    Binding,
    Lowering,
    Several,
    Static,
    Value,
    statement,
    type_of,
)
from engine.compiler.frontend.names import callee_of
from engine.compiler.frontend.operators import OPERATORS, SYMBOLS, binary, only_if, truth, unary
from engine.compiler.frontend.parts import unpacked
from engine.compiler.frontend.places import ElementPlace, LocalPlace, SlicePlace, fitting, place_of
from engine.compiler.frontend.slices import count_of
from engine.compiler.frontend.unsupported import unsupported
from engine.compiler.ir import Op, Region
from engine.compiler.values import value_class

MAX_STATIC_TRIPS = 1024  # of a loop that `static(…)` of its variable takes apart


@statement(ast.Pass)
def lower_pass(ctx: Lowering, node: ast.Pass, rest: list[ast.stmt]) -> None:
    """Nothing."""


@statement(ast.Expr)
def lower_expression(ctx: Lowering, node: ast.Expr, rest: list[ast.stmt]) -> None:
    if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return  # docstring
    ctx.expression(node.value)


# --- assignment ---------------------------------------------------------------------------------------------------


@statement(ast.Assign)
def lower_assign(ctx: Lowering, node: ast.Assign, rest: list[ast.stmt]) -> None:
    value = ctx.expression(node.value)
    for target in node.targets:
        assign(ctx, target, value, node)


@statement(ast.AnnAssign)
def lower_annotated(ctx: Lowering, node: ast.AnnAssign, rest: list[ast.stmt]) -> None:
    if node.value is None:
        return
    try:
        want = types.of_annotation(ctx.source.evaluate(node.annotation))
    except (TypeError, NameError) as error:
        raise ctx.error(node.annotation, str(error)) from None
    value = ctx.value(ctx.expression(node.value), node, want)
    if not types.matches(want, value.type):
        raise ctx.error(node, f"annotated {want!r} but the value is {value.type!r}")
    assign(ctx, node.target, value, node)


def assign(ctx: Lowering, target: ast.expr, value: Value, node: ast.AST) -> None:
    """Assigns `value` to a name, a tuple of targets, or a part of something."""
    if isinstance(target, ast.Name):
        ctx.bind(target.id, value, node)
    elif isinstance(target, ast.Tuple | ast.List):
        starred = next((e for e in target.elts if isinstance(e, ast.Starred)), None)
        if starred is not None:
            raise ctx.error(starred, *unsupported(starred))
        items = tile_elements.apart(ctx, unpack(ctx, value, len(target.elts), node), node)
        for element, item in zip(target.elts, items, strict=True):
            assign(ctx, element, item, node)
    else:
        place_of(ctx, target).write(ctx, value, node)


def unpack(ctx: Lowering, value: Value, count: int, node: ast.AST) -> list[Value]:
    """The `count` parts of a tuple, a vector, or the thread index of a multi-dimensional launch."""
    if isinstance(value, Op) and value.kind == "tid":
        value.attrs.update(axis=0, ndim=count)
        return [value, *(ctx.emit("tid", types.int32, node=node, axis=k, ndim=count) for k in range(1, count))]
    parts = unpacked(ctx, value, node)
    if len(parts) != count:
        raise ctx.error(node, f"{len(parts)} values are unpacked into {count} names")
    return parts


@statement(ast.AugAssign)
def lower_augmented(ctx: Lowering, node: ast.AugAssign, rest: list[ast.stmt]) -> None:
    name = OPERATORS[type(node.op)]
    if isinstance(node.target, ast.Name):
        old = ctx.read(node.target.id, node.target)
        if isinstance(old, Op) and isinstance(old.type, types.Tile):
            HOOKS["tile update"](ctx, name, old, ctx.expression(node.value), node)
            return
        ctx.bind(node.target.id, binary(ctx, name, old, ctx.expression(node.value), node), node)
        return
    place = place_of(ctx, node.target)
    value = ctx.expression(node.value)
    if isinstance(place, ElementPlace | SlicePlace) and update(ctx, name, place, value, node):
        return
    old = place.read(ctx, node)
    if isinstance(place, LocalPlace) and isinstance(place.array.type, types.Tile):
        place.write(ctx, HOOKS["element operator"](ctx, name, [old, value], node), node)
    else:
        place.write(ctx, binary(ctx, name, old, value, node), node)


def update(ctx: Lowering, name: str, place: ElementPlace | SlicePlace, value: Value, node: ast.AST) -> bool:
    """`place name= value` where several threads may have the place. False: there is no need, or no such operation."""
    same = types.components(place.type)
    if place.is_private() or same is None or name not in ("add", "sub", "and", "or", "xor"):
        return False
    if same[0].is_int or same[0].is_float and name in ("add", "sub"):
        place.atomic(ctx, name, value, node)
        return True
    if same[0].kind != "b" or name in ("add", "sub"):
        return False
    if name == "xor" or place.type != types.bool_:
        raise ctx.error(node, f"'{SYMBOLS[name]}=' is not defined on {place.type!r} where several threads may have the "
                              "element", f"write a[i] = a[i] {SYMBOLS[name]} x where they have not")  # fmt: skip
    decides = fitting(ctx, value, types.bool_, node)  # who decides the result writes it, and all write the same
    if name == "and":
        decides = ctx.emit("eq", types.bool_, decides, ctx.const(False, types.bool_, node), node=node)
    only_if(ctx, decides, node, lambda: place.write(ctx, Static(name == "or"), node))
    return True


# --- branches -----------------------------------------------------------------------------------------------------


@statement(ast.If)
def lower_if(ctx: Lowering, node: ast.If, rest: list[ast.stmt]) -> bool:
    condition = truth(ctx, ctx.expression(node.test), node.test)
    if isinstance(condition, Static):
        ctx.block(node.body if condition.value else node.orelse)
        return False
    regions = Region(), Region()
    op = ctx.emit("if", types.void, condition, node=node, regions=regions)
    bound, ended = [], []
    for region, body in zip(regions, (node.body, node.orelse), strict=True):
        with ctx.inside(region):
            ctx.block(body)
            bound.append(ctx.bound)
            ended.append(ctx.terminated)
    consumed = ended[0] != ended[1] and bool(rest)
    if consumed:  # one path has left: what follows belongs to the other, where its names are in scope
        path = ended.index(False)
        with ctx.inside(regions[path]):
            ctx.bound = bound[path]
            ctx.block(rest)
            bound[path], ended[path] = ctx.bound, ctx.terminated
    going_on = [b for b, e in zip(bound, ended, strict=True) if not e]
    ctx.terminated = not going_on
    if going_on:
        ctx.bound = merge(ctx, going_on)
    assert ctx.region.ops[-1] is op
    return consumed


def merge(ctx: Lowering, outcomes: list[dict[str, Binding]]) -> dict[str, Binding]:
    """Names that have a value whichever path was taken: slots set on all, and what was bound before and still is."""
    kept = {}
    for name, binding in outcomes[0].items():
        others = [other.get(name) for other in outcomes[1:]]
        if binding.is_slot and all(o is not None and o.is_slot for o in others):
            kept[name] = Binding(binding.value, ctx.region, is_slot=True)
        elif ctx.bound.get(name) is binding and all(o is binding for o in others):
            kept[name] = binding
    return kept


# --- loops --------------------------------------------------------------------------------------------------------


@statement(ast.While)
def lower_while(ctx: Lowering, node: ast.While, rest: list[ast.stmt]) -> None:
    finished = loop_flag(ctx, node, bool(node.orelse))
    test, body = Region(), Region()
    with ctx.inside(test):
        condition = truth(ctx, ctx.expression(node.test), node.test)
        ctx.emit("condition", types.void, ctx.value(condition, node.test), node=node.test)
    with ctx.inside(body):
        ctx.block(node.body)
        after = ctx.bound
    ctx.emit("while", types.void, node=node, regions=(test, body))
    keep_after_loop(ctx, after)
    if isinstance(condition, Static) and condition.value and not has_break(node.body):
        ctx.terminated = True
        return
    otherwise(ctx, node, finished)


@statement(ast.For)
def lower_for(ctx: Lowering, node: ast.For, rest: list[ast.stmt]) -> None:
    bounds = range_bounds(ctx, node.iter)
    iterated = ctx.expression(node.iter) if bounds is None else Static(None)
    if isinstance(iterated, Op) and (advance := advance_of(iterated.type)) is not None:
        walk(ctx, node, iterated, advance, rest)
        return
    values = items_to_unroll(ctx, node, bounds, iterated)
    if values is None:
        assert bounds is not None
        finished = loop_flag(ctx, node, bool(node.orelse))
        loop_over(ctx, node, bounds)
        otherwise(ctx, node, finished)
    elif leaves_loop(node.body):
        unroll_with_jumps(ctx, node, values)
    else:
        for value in values:
            assign(ctx, node.target, value, node.target)
            ctx.block(node.body)
            if ctx.terminated:
                return
        ctx.block(node.orelse)


def advance_of(t: types.Type) -> Any:
    """The function that finds the next number of a query: `advance(query, index) -> bool`. None for other values."""
    return getattr(value_class(t), "advance", None) if isinstance(t, types.Struct) else None


def walk(ctx: Lowering, node: ast.For, query: Op, advance: Any, rest: list[ast.stmt]) -> None:
    """`for i in query: …` is `while advance(query, index): i = index; …`, with the loop's own query and index."""
    names = [f"{what} of line {node.lineno}, {node.col_offset}" for what in ("query", "index", "advance")]
    for name in names[:2]:
        ctx.uses.assigned[name] = 2  # slots, which the call changes
    ctx.bind(names[0], query, node)
    ctx.bind(names[1], ctx.const(0, types.int32, node), node)
    ctx.bound[names[2]] = Binding(Static(advance), ctx.region)
    state, index, function = (ast.copy_location(ast.Name(name, ast.Load()), node.iter) for name in names)
    test = ast.copy_location(ast.Call(function, [state, index], []), node.iter)
    found = ast.copy_location(ast.Assign([node.target], index), node)
    lower_while(ctx, ast.copy_location(ast.While(test, [found, *node.body], node.orelse), node), rest)


def items_to_unroll(
    ctx: Lowering, node: ast.For, bounds: tuple[Value, Value, Value] | None, iterated: Value
) -> list[Value] | None:
    """The values of the loop variable where the loop is taken apart: as it must be, or is short. None: at run time."""
    if bounds is None:
        return static_items(ctx, iterated, node.iter)
    if not all(isinstance(b, Static) for b in bounds):
        return None
    span = range(*(b.value for b in bounds if isinstance(b, Static)))
    if len(span) <= ctx.max_unroll and not leaves_loop(node.body):
        return [Static(i) for i in span]
    if isinstance(node.target, ast.Name) and used_by_static(ctx, node.body, node.target.id):
        if len(span) > MAX_STATIC_TRIPS:
            raise ctx.error(node, f"static({node.target.id}) takes this loop apart, and {len(span)} iterations are "
                                  f"more than {MAX_STATIC_TRIPS}")  # fmt: skip
        return [Static(i) for i in span]
    return None


def used_by_static(ctx: Lowering, body: list[ast.stmt], name: str) -> bool:
    """Whether a `static(…)` in there is about the variable `name`."""
    for node in (n for one in body for n in ast.walk(one)):
        if isinstance(node, ast.Call) and getattr(callee_of(node.func, ctx.source), "intrinsic", None) == "static":
            if any(isinstance(n, ast.Name) and n.id == name for a in node.args for n in ast.walk(a)):
                return True
    return False


def unroll_with_jumps(ctx: Lowering, node: ast.For, values: list[Value]) -> None:
    """One iteration after the other, each a loop of one trip: `continue` ends it, `break` clears a flag for the others.

    What an iteration binds for the first time is not bound after it, since it may have been left before.
    """
    finished = loop_flag(ctx, node, True)
    for trip, value in enumerate(values):
        if finished is None or trip == 0:
            one_trip(ctx, node, value)
            continue
        branch = Region()
        ctx.emit("if", types.void, ctx.emit("get", types.bool_, finished, node=node), node=node,
                 regions=(branch, Region()))  # fmt: skip
        with ctx.inside(branch):
            one_trip(ctx, node, value)
    otherwise(ctx, node, finished)


def one_trip(ctx: Lowering, node: ast.For, value: Value) -> None:
    """The body of a loop with its variable as `value`."""
    start, stop, step = (ctx.const(n, types.int32, node) for n in (0, 1, 1))
    body = Region()
    with ctx.inside(body):
        ctx.emit("index", types.int32, node=node.target)
        assign(ctx, node.target, value, node.target)
        ctx.block(node.body)
        after = ctx.bound
    ctx.emit("for", types.void, start, stop, step, node=node, regions=(body,))
    keep_after_loop(ctx, after)


def loop_flag(ctx: Lowering, node: ast.For | ast.While, asked: bool) -> Op | None:
    """For a loop with `break`, if it is asked for: a slot that is true until the loop is left by break."""
    if not asked or not has_break(node.body):
        ctx.loops.append(None)
        return None
    slot = ctx.slot(types.bool_, "finished")
    ctx.emit("set", types.void, slot, ctx.const(True, types.bool_, node), node=node)
    ctx.loops.append(slot)
    return slot


def otherwise(ctx: Lowering, node: ast.For | ast.While, finished: Op | None) -> None:
    """The `else` of a loop: runs unless the loop was left by break."""
    ctx.loops.pop()
    if finished is None:
        ctx.block(node.orelse)
        return
    condition = ctx.emit("get", types.bool_, finished, node=node)
    branch = Region()
    ctx.emit("if", types.void, condition, node=node, regions=(branch, Region()))
    before = ctx.bound
    with ctx.inside(branch):
        ctx.block(node.orelse)
        bound, ended = ctx.bound, ctx.terminated
    ctx.bound = before if ended else merge(ctx, [bound, before])


def loop_over(ctx: Lowering, node: ast.For, bounds: tuple[Value, Value, Value]) -> None:
    """A loop at run time."""
    if not isinstance(node.target, ast.Name):
        raise ctx.error(node.target, "a loop has one variable")
    dtype = next((b.type for b in bounds if isinstance(b, Op)), types.int32)
    start, stop, step = (ctx.value(b, node.iter, dtype) for b in bounds)
    for bound in (start, stop, step):
        if bound.type != dtype or not isinstance(dtype, types.Scalar) or not dtype.is_int:
            given = repr(dtype) if bound.type == dtype else f"{dtype!r} and {bound.type!r}"
            raise ctx.error(node.iter, f"range() takes integers of one type, not {given}", "convert it: int32(…)")
    body = Region()
    called = node.iter.func if isinstance(node.iter, ast.Call) else None
    independent = isinstance(called, ast.Name) and is_each(ctx.read(called.id, called))
    attrs = {"each": ctx.each_depth} if independent else {}
    ctx.each_depth += independent
    with ctx.inside(body):
        index = ctx.emit("index", dtype, node=node.target)
        ctx.bind(node.target.id, index, node.target)
        ctx.block(node.body)
        after = ctx.bound
    ctx.each_depth -= independent
    ctx.emit("for", types.void, start, stop, step, node=node, regions=(body,), **attrs)
    keep_after_loop(ctx, after)


def keep_after_loop(ctx: Lowering, after: dict[str, Binding]) -> None:
    """A loop may run zero times: only what was bound before is bound after, and must still mean the same."""
    ctx.bound = {n: b for n, b in ctx.bound.items() if b.is_slot or after.get(n, b) is b or n not in after}


def is_each(v: Value) -> bool:
    """Whether it is what the library calls `each`: a range whose rounds do not depend on each other."""
    return isinstance(v, Static) and getattr(v.value, "intrinsic", None) == "each"


def range_bounds(ctx: Lowering, node: ast.expr) -> tuple[Value, Value, Value] | None:
    """start, stop, step of a `range(…)` call, or of one inside `reversed`; None for anything else."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        return None
    function = ctx.read(node.func.id, node.func)
    if is_each(function):
        function = Static(range)
    if isinstance(function, Static) and function.value is reversed and len(node.args) == 1:
        inner = range_bounds(ctx, node.args[0])
        return None if inner is None else reversed_bounds(ctx, inner, node)
    if not (isinstance(function, Static) and function.value is range):
        return None
    args = [ctx.expression(a) for a in node.args]
    if not 1 <= len(args) <= 3 or node.keywords:
        raise ctx.error(node, "range() takes 1 to 3 arguments")
    start, stop = (Static(0), args[0]) if len(args) == 1 else (args[0], args[1])
    step = args[2] if len(args) == 3 else Static(1)
    if isinstance(step, Static) and step.value == 0:
        raise ctx.error(node, "the step of range() must not be zero")
    return start, stop, step


def reversed_bounds(ctx: Lowering, bounds: tuple[Value, Value, Value], node: ast.AST) -> tuple[Value, Value, Value]:
    """The same numbers from the last to the first: last = start + (count - 1) · step."""
    start, stop, step = bounds
    if isinstance(step, Static) and isinstance(start, Static) and isinstance(stop, Static):
        span = range(start.value, stop.value, step.value)[::-1]
        return Static(span.start), Static(span.stop), Static(span.step)
    wide = next((t for t in map(type_of, bounds) if t != types.int32), None)
    if wide is not None:
        raise ctx.error(node, f"reversed() takes a range of int32, not of {wide!r}", "convert it: int32(…)")
    count = count_of(ctx, start, stop, step, node)
    last = binary(ctx, "add", start, binary(ctx, "mul", binary(ctx, "sub", count, Static(1), node), step, node), node)
    return last, binary(ctx, "sub", start, step, node), unary(ctx, "neg", step, node)


def static_items(ctx: Lowering, value: Value, node: ast.expr) -> list[Value]:
    """The items of something that is known while compiling."""
    if isinstance(value, Several):
        return list(value.items)
    if isinstance(value, Static) and isinstance(value.value, tuple | list | range):
        return [Static(v) for v in value.value]
    t = type_of(value)
    hint = ""
    if isinstance(t, types.Array):
        hint = "loop over range(a.shape[0])"
    elif isinstance(t, types.Scalar) and t.is_int:
        hint = "did you mean range(…)?"
    raise ctx.error(node, "a loop runs over range(…) or a tuple known while compiling", hint)


def leaves_loop(body: list[ast.stmt]) -> bool:
    """Whether a loop body contains break, continue or return that concern this loop."""
    for node in body:
        if isinstance(node, ast.Break | ast.Continue | ast.Return):
            return True
        if isinstance(node, ast.If) and (leaves_loop(node.body) or leaves_loop(node.orelse)):
            return True
        if isinstance(node, ast.For | ast.While) and any(isinstance(n, ast.Return) for n in ast.walk(node)):
            return True
    return False


def has_break(body: list[ast.stmt]) -> bool:
    """Whether a loop body breaks out of this loop."""
    for node in body:
        if isinstance(node, ast.Break):
            return True
        if isinstance(node, ast.If) and (has_break(node.body) or has_break(node.orelse)):
            return True
    return False


@statement(ast.Break)
@statement(ast.Continue)
def lower_jump(ctx: Lowering, node: ast.Break | ast.Continue, rest: list[ast.stmt]) -> None:
    if isinstance(node, ast.Break) and ctx.loops and ctx.loops[-1] is not None:
        ctx.emit("set", types.void, ctx.loops[-1], ctx.const(False, types.bool_, node), node=node)
    ctx.emit("break" if isinstance(node, ast.Break) else "continue", types.void, node=node)
    ctx.terminated = True


# --- return -------------------------------------------------------------------------------------------------------


@statement(ast.Return)
def lower_return(ctx: Lowering, node: ast.Return, rest: list[ast.stmt]) -> None:
    value = Static(None) if node.value is None else ctx.expression(node.value)
    if isinstance(value, Static) and value.value is None:
        leave(ctx, None, node)
        return
    if ctx.function.is_kernel:
        raise ctx.error(node, "a kernel returns nothing", "write the result into an array")
    result = returned(ctx, value, node)
    if isinstance(result.type, types.Tile) and tile_elements.memory_of(result).kind == "param":
        result = tile_elements.another(ctx, result, node)  # the caller has two names for it then
    is_made_here = isinstance(result.type, types.LocalArray) and ctx.region is ctx.function.body
    if not result.type.is_value and not is_made_here:
        raise ctx.error(node, f"{result.type!r} cannot be returned", "pass it in and let the function write to it")
    leave(ctx, result, node)


def leave(ctx: Lowering, result: Op | None, node: ast.AST) -> None:
    """Returns `result` and, behind it, the values of the parameters that are references."""
    plain = result.type if result is not None else types.void
    annotated = ctx.source.annotations.get("return")
    if annotated is not None and types.is_concrete(annotated) and annotated != plain:
        raise ctx.error(node, f"'{ctx.source.name}' is annotated to return {annotated!r} but returns {plain!r}")
    if ctx.refs:
        items = [result] if result is not None else []
        items += [ctx.value(ctx.read(name, node), node) for name in ctx.refs]
        result = ctx.emit("make", types.Tuple(tuple(i.type for i in items)), *items, node=node)
    t = result.type if result is not None else types.void
    if ctx.has_result and ctx.function.result != t:
        raise ctx.error(node, f"'{ctx.source.name}' returns {ctx.function.result!r} elsewhere and {t!r} here")
    ctx.function.result = t
    ctx.has_result = True
    ctx.emit("return", types.void, *([result] if result is not None else []), node=node)
    ctx.terminated = True


def returned(ctx: Lowering, value: Value, node: ast.Return) -> Op:
    """The returned value; literals take the type that the annotation or an earlier return gives."""
    given = ctx.function.result if ctx.function.result is not types.void and not ctx.refs else None
    want = given or ctx.source.annotations.get("return")
    if isinstance(value, Several) and isinstance(want, types.Tuple) and len(want.items) == len(value.items):
        items = [ctx.value(v, node, t) for v, t in zip(value.items, want.items, strict=True)]
        return ctx.emit("make", types.Tuple(tuple(i.type for i in items)), *items, node=node)
    return ctx.value(value, node, want)


HOOKS["leave"] = leave
