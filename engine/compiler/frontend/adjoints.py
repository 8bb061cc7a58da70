"""Gradients that users write: a function's own gradient function, and `adjoint[x]` inside it.

    @func                              @func_grad(f)
    def f(x: float, y: float):         def _(x: float, y: float, adj_ret: float):
        return x * y                       adjoint[x] += y * adj_ret

The gradient function takes the arguments of the function, then the adjoint of each result. `adjoint[x]` is a place: the
adjoint of argument x, zero at first, or the gradient of the array x. What it is at the end is what the function yields.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from engine.compiler import types
from engine.compiler.frontend.context import EXPRESSIONS, Lowering, Several, Static, Value, static_type, zero
from engine.compiler.frontend.expressions import lower_subscript
from engine.compiler.frontend.intrinsics import intrinsic
from engine.compiler.frontend.places import SlotPlace, adjoint_place, is_adjoint
from engine.compiler.ir import Function, Op, Region
from engine.compiler.normalize import normalize
from engine.config import config


class CustomGradient:
    """The gradient function of a specialised function; lowered when a gradient is asked for."""

    def __init__(self, gradient: Any, specs: Sequence[Any], result: types.Type):
        self.gradient, self.specs = gradient, list(specs)
        self.results = (
            list(result.items) if isinstance(result, types.Tuple) else [result] if result != types.void else []
        )
        self._function: Function | None = None

    def __repr__(self) -> str:
        return f"@{self.gradient.name}"

    @property
    def function(self) -> Function:
        """Normalised HIR: run-time arguments, then adjoints of results; it ends in a `yield` of the former's adjoints.

        Operand k of the yield belongs to run-time argument k; arguments without a derivative yield themselves.
        """
        if self._function is None:
            self._function = self._lower()
        return self._function

    def _lower(self) -> Function:
        source = self.gradient.source
        function = Function(self.gradient.name, [], file=source.filename, line=source.first_line)
        ctx = Lowering(source, function)
        ctx.adjoints = {}
        names = source.parameters
        if len(names) != len(self.specs) + len(self.results):
            wanted = f"{len(self.specs)} arguments and {len(self.results)} adjoints of results"
            raise ctx.error(source.tree, f"the gradient function takes {len(names)} parameters, but needs {wanted}")
        yielded: list[tuple[Op, Op]] = []  # argument, slot or argument
        for parameter, spec in zip(names, [*self.specs, *self.results], strict=True):
            if isinstance(spec, Static):
                ctx.bind(parameter.name, spec, source.tree)
                t = static_type(spec.value)
                if isinstance(t, types.Scalar):
                    ctx.adjoints[parameter.name] = self._place(ctx, t, parameter.name)
                continue
            op = Op("param", spec, (), {"index": len(function.params), "name": parameter.name})
            function.params.append(op)
            ctx.bind(parameter.name, op, source.tree)
            if len(function.params) > self._run_time:
                continue
            yielded.append((op, op))
            if isinstance(spec, types.Array):
                ctx.adjoints[parameter.name] = ctx.emit("shadow", spec, op)
            elif isinstance(spec, types.Scalar | types.Struct) or types.components(spec):
                place = self._place(ctx, spec, parameter.name)
                ctx.adjoints[parameter.name] = place
                yielded[-1] = op, place.slot
        ctx.block(source.tree.body)
        made = normalize(function)
        read = {v for op in made.body.walk() for v in op.operands}  # arrays that nobody asks need no gradient
        made.body.ops = [op for op in made.body.ops if op.kind != "shadow" or op in read]
        gets = [Op("get", p.type, (s,)) if s is not p else p for p, s in yielded]
        made.body.ops += [g for g in gets if g.kind == "get"]
        made.body.ops.append(Op("yield", types.void, tuple(gets)))
        return made

    @property
    def _run_time(self) -> int:
        return sum(not isinstance(s, Static) for s in self.specs)

    @staticmethod
    def _place(ctx: Lowering, t: types.Type, name: str) -> SlotPlace:
        slot = ctx.slot(t, f"adjoint.{name}")
        ctx.emit("set", types.void, slot, zero(ctx, t, ctx.source.tree))
        return SlotPlace(slot, t)


def read_subscript(ctx: Lowering, node: ast.Subscript) -> Value:
    """`adjoint[x]` as a value, beside all other subscripts."""
    if not is_adjoint(ctx, node.value):
        return lower_subscript(ctx, node)
    place = adjoint_place(ctx, node.slice)
    return place if isinstance(place, Op | Static | Several) else place.read(ctx, node)


EXPRESSIONS[ast.Subscript] = read_subscript


class GradientOf:
    """`grad(f)`: calling it gives the derivatives of f by its float arguments."""

    def __init__(self, target: Any):
        self.target = target

    def __repr__(self) -> str:
        return f"grad({getattr(self.target, '__name__', self.target)!s})"


@intrinsic("grad")
def lower_grad(ctx: Lowering, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    if len(args) != 1 or kwargs or not isinstance(args[0], Static):
        raise ctx.error(node, "grad() takes one function")
    return Static(GradientOf(args[0].value))


def call_gradient(ctx: Lowering, target: GradientOf, args: list[Value], call: Callable[[list[Value]], Value],
                  node: ast.AST) -> Value:  # fmt: skip
    """`grad(f)(x, y)`; `call` lowers a call of f with the arguments given to it."""
    from engine.compiler.adjoint_function import gradient_function  # the differentiator, which most kernels never need

    values: list[Op] = []
    given: list[Value] = []
    params: list[Op] = []
    for a in args:
        if isinstance(a, Static) and callable(a.value):
            given.append(a)  # a function as an argument
            continue
        values.append(ctx.value(a, node))
        params.append(Op("param", values[-1].type, (), {"index": len(params), "name": f"a{len(params)}"}))
        given.append(params[-1])
    scratch = Region()
    with ctx.inside(scratch):
        result = ctx.value(call(given), node)
        ctx.emit("return", types.void, result)
    name = getattr(target.target, "__name__", "function")
    line = getattr(node, "lineno", ctx.function.line)
    function = Function(name, params, scratch, result.type, ctx.function.file, line)
    made = gradient_function(function, config.fma)
    return ctx.emit("call", made.result, *values, node=node, callee=made)
