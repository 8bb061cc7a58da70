"""Replaces every call by a copy of the callee's body (HIR to HIR, on normalised functions).

Arrays, tables and local arrays are passed by reference because the parameter is replaced by the argument's value. Calls
are expanded from the outside in, so that each op of the result is made once, however deep its function lies.
"""

from __future__ import annotations

from engine.compiler.ir import Function, Op, Region
from engine.compiler.normalize import normalize
from engine.errors import InternalError

Values = dict[Op, Op]  # ops of one function as written → the values that stand for them in the result


def inline(fn: Function) -> Function:
    """`fn` without calls. `fn` must be normalised; callees are normalised here. `fn` is not changed."""
    if not any(op.kind == "call" for op in fn.body.walk()):
        return fn
    out: list[Op] = []
    _Inliner().ops(fn.body.ops, {}, out, copy=False)
    return Function(fn.name, fn.params, Region(out), fn.result, fn.file, fn.line, fn.is_kernel)


class _Inliner:
    def __init__(self) -> None:
        self.normalized: dict[Function, Function] = {}
        self.open: list[Function] = []  # the calls around the current op

    def ops(self, ops: list[Op], values: Values, out: list[Op], copy: bool) -> None:
        """Appends `ops` with their calls replaced; without `copy`, ops that stay as they are are shared."""
        for op in ops:
            kind = op.kind
            if kind == "call":
                self.call(op, values, out)
                continue
            operands = op.operands
            if values and operands:
                operands = tuple([values.get(v, v) for v in operands])
            if op.regions:
                out.append(self.structured(op, operands, values, copy))
            elif copy or operands != op.operands:
                new = values[op] = Op(kind, op.type, operands, op.attrs, (), op.loc)
                out.append(new)
            else:
                out.append(op)

    def structured(self, op: Op, operands: tuple[Op, ...], values: Values, copy: bool) -> Op:
        attrs = op.attrs
        if attrs and attrs.get("exit") is not None:
            attrs = {**attrs, "exit": values.get(attrs["exit"], attrs["exit"])}
        regions = []
        for region in op.regions:
            inner: list[Op] = []
            self.ops(region.ops, values, inner, copy)
            regions.append(Region(inner))
        return Op(op.kind, op.type, operands, attrs, tuple(regions), op.loc)

    def call(self, op: Op, values: Values, out: list[Op]) -> None:
        fn: Function = op.attrs["callee"]
        if fn in self.open:
            raise InternalError(f"'{fn.name}' calls itself")
        callee = self.normalized.get(fn)
        if callee is None:
            callee = self.normalized[fn] = normalize(fn)
        self.open.append(fn)
        inner = {p: values.get(v, v) for p, v in zip(callee.params, op.operands, strict=True)}
        body = callee.body.ops
        tail = body[-1] if body and body[-1].kind == "return" else None
        self.ops(body if tail is None else body[:-1], inner, out, copy=True)
        if tail is not None and tail.operands:
            values[op] = inner.get(tail.operands[0], tail.operands[0])
        self.open.pop()
