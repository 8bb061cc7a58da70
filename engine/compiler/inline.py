"""Replaces every call by a copy of the callee's body (HIR to HIR, on normalised functions).

Arrays, tables and local arrays are passed by reference because the parameter is replaced by the argument's value.
"""

from __future__ import annotations

from engine.compiler.ir import Function, Op, Region, clone_op
from engine.compiler.normalize import normalize
from engine.errors import InternalError


def inline(fn: Function) -> Function:
    """`fn` without calls. `fn` must be normalised; callees are normalised here. `fn` is not changed."""
    return _Inliner().function(fn)


class _Inliner:
    def __init__(self) -> None:
        self.done: dict[Function, Function] = {}  # callee, as the front end made it → normalised and without calls
        self.open: list[Function] = []

    def callee(self, fn: Function) -> Function:
        ready = self.done.get(fn)
        if ready is None:
            if fn in self.open:
                raise InternalError(f"'{fn.name}' calls itself")
            self.open.append(fn)
            ready = self.done[fn] = self.function(normalize(fn))
            self.open.pop()
        return ready

    def function(self, fn: Function) -> Function:
        if not any(op.kind == "call" for op in fn.body.walk()):
            return fn
        body = Region(self.region(fn.body.ops, {}))
        return Function(fn.name, fn.params, body, fn.result, fn.file, fn.line, fn.is_kernel)

    def region(self, ops: list[Op], values: dict[Op, Op]) -> list[Op]:
        """Copies of `ops` with calls replaced; ops that stay as they are, are shared with the original."""
        out: list[Op] = []
        for op in ops:
            if op.kind == "call":
                self.call(op, out, values)
                continue
            operands = op.operands
            if values and operands:
                operands = tuple([values.get(v, v) for v in operands])
            if op.regions:
                regions = tuple([Region(self.region(r.ops, values)) for r in op.regions])
                out.append(Op(op.kind, op.type, operands, op.attrs, regions, op.loc))
            elif operands == op.operands:
                out.append(op)
            else:
                copy = values[op] = Op(op.kind, op.type, operands, op.attrs, (), op.loc)
                out.append(copy)
        return out

    def call(self, op: Op, out: list[Op], values: dict[Op, Op]) -> None:
        callee = self.callee(op.attrs["callee"])
        inner = {p: values.get(v, v) for p, v in zip(callee.params, op.operands, strict=True)}
        for inner_op in callee.body.ops:
            if inner_op.kind == "return":
                if inner_op.operands:
                    value = inner_op.operands[0]
                    values[op] = inner.get(value, value)
            else:
                out.append(clone_op(inner_op, inner))
