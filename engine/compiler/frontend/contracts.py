"""What a kernel says must hold: `assert`, `assume()` and `@requires`, lowered to `fault` ops behind an `if`.

They are there in debug and in checked mode (`config.keeps_asserts`), where a launch raises when one does not hold; else
they leave no code. The audit tries to prove an `assert`, and takes the other two as facts.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from engine.compiler import types
from engine.compiler.diagnostics import did_you_mean
from engine.compiler.frontend.context import HOOKS, Lowering, Several, Static, Value, statement
from engine.compiler.frontend.intrinsics import intrinsic
from engine.compiler.frontend.operators import truth
from engine.compiler.function import Func
from engine.compiler.ir import Location, Op, Region
from engine.config import config


@statement(ast.Assert)
def lower_assert(ctx: Lowering, node: ast.Assert, rest: list[ast.stmt]) -> None:
    """`assert condition, "reason"`."""
    if not config.keeps_asserts:
        return
    condition = truth(ctx, ctx.expression(node.test), node.test)
    reason = _reason(ctx, ctx.expression(node.msg), node.msg) if node.msg is not None else ""
    text = f"assert {ast.unparse(node.test)}{reason}"
    unless(ctx, condition, lambda: _note(ctx, ctx.source.name, text, node, assumed=False), node)


@intrinsic("assume")
def lower_assume(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """`assume(condition, "reason")`."""
    if kwargs or len(args) not in (1, 2):
        raise ctx.error(node, "assume() takes a condition, and a text that says why it holds")
    if config.keeps_asserts:
        condition = truth(ctx, args[0], node)
        reason = _reason(ctx, args[1], node) if len(args) == 2 else ""
        shown = ast.unparse(node.args[0]) if isinstance(node, ast.Call) else ""
        text = f"assume({shown}){reason}"
        unless(ctx, condition, lambda: _note(ctx, ctx.source.name, text, node, assumed=True), node)
    return Static(None)


def lower_requirements(ctx: Lowering, callee: Func) -> None:
    """The contracts of `@requires`, in front of the body; each is a function of parameters that it has by name."""
    if not config.keeps_asserts:
        return
    for contract in callee.requirements:
        tree = contract.source.tree
        given: dict[str, Value] = {}
        for name in contract.parameter_names:
            if name in ctx.bound:
                given[name] = ctx.read(name, tree)
            elif name == "tid" and ctx.function.is_kernel:
                given[name] = _thread_index(ctx, tree)
            else:
                raise Lowering(contract.source, ctx.function).error(
                    contract.source.parameter(name), f"requires: '{callee.name}' has no parameter '{name}'",
                    did_you_mean(name, ctx.bound))  # fmt: skip
        shown = tree.body[-1]
        where = shown.value if isinstance(shown, ast.Return) and shown.value is not None else shown
        condition = truth(ctx, HOOKS["call func"](ctx, contract, [], given, tree), tree)
        text = f"requires {ast.unparse(where)}"

        def note(contract: Func = contract, where: ast.AST = where, text: str = text) -> None:
            op = _note(ctx, callee.name, text, where, assumed=True, file=contract.source.filename)
            op.loc = Location(getattr(where, "lineno", contract.source.first_line), 1, contract.source.filename)

        unless(ctx, condition, note, tree)


def _thread_index(ctx: Lowering, node: ast.AST) -> Value:
    """The index of this thread, or a tuple of as many as the kernel takes `tid()` apart into."""
    taken = [a.targets[0].elts for a in ast.walk(ctx.source.tree)
             if isinstance(a, ast.Assign) and isinstance(a.targets[0], ast.Tuple) and isinstance(a.value, ast.Call)
             and ast.unparse(a.value.func).split(".")[-1] == "tid"]  # fmt: skip
    ndim = max(map(len, taken), default=1)
    each = tuple(ctx.emit("tid", types.int32, node=node, axis=axis, ndim=ndim) for axis in range(ndim))
    return each[0] if ndim == 1 else Several(each)


def unless(ctx: Lowering, condition: Value, otherwise: Callable[[], object], node: ast.AST) -> None:
    """Does what `otherwise` lowers to when the condition does not hold."""
    if isinstance(condition, Static):
        if condition.value:
            return
        condition = ctx.value(Static(False), node)
    assert isinstance(condition, Op)
    good, bad = Region(), Region()
    with ctx.inside(bad):
        otherwise()
    ctx.emit("if", types.void, condition, node=node, regions=(good, bad))


def _note(ctx: Lowering, function: str, text: str, node: ast.AST, assumed: bool, file: str = "") -> Op:
    return ctx.emit("fault", types.void, node=node, check="assert", file=file or ctx.source.filename,
                    function=function, text=text, assumed=assumed)  # fmt: skip


def _reason(ctx: Lowering, message: Value, node: ast.AST) -> str:
    if not (isinstance(message, Static) and isinstance(message.value, str)):
        raise ctx.error(node, "the reason of an assert or assume is a text that is known while compiling")
    return f", {message.value}"


HOOKS["requirements"] = lower_requirements
