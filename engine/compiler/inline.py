"""Replaces every call by a copy of the callee's body (HIR to HIR, on normalised functions).

Arrays, tables and local arrays are passed by reference because the parameter is replaced by the argument's value. Calls
are expanded from the outside in, so that each op of the result is made once, however deep its function lies.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from engine.compiler.ir import Function, Location, Op, Region
from engine.compiler.normalize import normalize
from engine.compiler.types import Tuple, void
from engine.errors import InternalError

_LIBRARY = os.path.join(os.path.dirname(__file__), "library", "")  # its functions report failed checks at their call

Values = dict[Op, Op]  # ops of one function as written → the values that stand for them in the result


def inline(fn: Function, customs: bool = True) -> Function:
    """`fn` without calls. `fn` must be normalised; callees are normalised here. `fn` is not changed.

    With `customs`, functions with a gradient of their own become `custom` ops.
    """
    if not any(op.kind == "call" for op in fn.body.walk()):
        return fn
    out: list[Op] = []
    _Inliner(fn, customs).ops(fn.body.ops, {}, out, copy=False)
    return Function(fn.name, fn.params, Region(out), fn.result, fn.file, fn.line, fn.is_kernel)


class _Inliner:
    def __init__(self, fn: Function, customs: bool) -> None:
        self.fn = fn
        self.normalized: dict[Function, Function] = {}
        self.open: list[Function] = []  # the calls around the current op
        self.site: dict[str, Any] | None = None  # in a function of the library: where the user's code calls it
        self.site_loc: Location | None = None
        self.custom = not customs  # whether functions with their own gradient are taken as any other here

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
            if kind == "extract" and operands[0].kind == "make" and isinstance(operands[0].type, Tuple):
                values[op] = operands[0].operands[op.attrs["index"]]  # of several results: tiles are no parts of values
            elif op.regions:
                out.append(self.structured(op, operands, values, copy))
            elif copy or operands != op.operands:
                new = values[op] = Op(kind, op.type, operands, op.attrs, (), op.loc)
                if kind == "fault" and self.site is not None:
                    new.attrs, new.loc = {**op.attrs, **self.site}, self.site_loc
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
        outer_site = self.site
        if outer_site is None and fn.file.startswith(_LIBRARY):
            caller = self.open[-1] if self.open else self.fn
            self.site, self.site_loc = {"file": caller.file, "function": caller.name}, op.loc
        self.open.append(fn)
        inner = {p: values.get(v, v) for p, v in zip(callee.params, op.operands, strict=True)}
        if fn.gradient is not None and not self.custom:
            self.custom = True
            self.custom_call(op, callee, inner, values, out)
            self.custom = False
        else:
            result = self.body(callee, inner, out)
            if result is not None:
                values[op] = result
        self.open.pop()
        self.site = outer_site

    def body(self, callee: Function, inner: Values, out: list[Op]) -> Op | None:
        """Appends the body of a function; its result."""
        ops = callee.body.ops
        tail = ops[-1] if ops and ops[-1].kind == "return" else None
        self.ops(ops if tail is None else ops[:-1], inner, out, copy=True)
        return inner.get(tail.operands[0], tail.operands[0]) if tail is not None and tail.operands else None

    def custom_call(self, op: Op, callee: Function, inner: Values, values: Values, out: list[Op]) -> None:
        """A function with a gradient of its own stays together, so that the way back can step over it.

        Kernels without gradients have the same op, which costs nothing in machine code: both round alike then.
        """
        ops: list[Op] = []
        slots = []
        result = self.body(callee, inner, ops)
        if result is not None:
            slots = [Op("slot", result.type, (), {"name": callee.name})]
            ops.append(Op("set", void, (slots[0], result)))
        fn: Function = op.attrs["callee"]
        attrs = {"gradient": fn.gradient, "outputs": tuple(slots)}
        out += slots
        out.append(Op("custom", void, tuple([inner[p] for p in callee.params]), attrs, (Region(ops),), op.loc))
        if result is not None:
            values[op] = Op("get", result.type, (slots[0],), None, (), op.loc)
            out.append(values[op])


def without_customs(fn: Function) -> Function:
    """MIR in which the bodies of `custom` ops stand in their place: what is computed, without how it is derived."""
    if not any(op.kind == "custom" for op in fn.body.walk()):
        return fn
    return replace(fn, body=_without_customs(fn.body))


def _without_customs(region: Region) -> Region:
    out: list[Op] = []
    for op in region.ops:
        if op.kind == "custom":
            out += _without_customs(op.regions[0]).ops
        elif op.regions:
            out.append(Op(op.kind, op.type, op.operands, op.attrs, tuple(map(_without_customs, op.regions)), op.loc))
        else:
            out.append(op)
    return Region(out)
