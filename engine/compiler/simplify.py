"""Makes MIR smaller without changing a bit of what it computes, then contracts a*b+c to fma (MIR to MIR).

In one walk: constants fold, exact identities apply (`simplify_rules`), equal pure values merge, a slot's last written
value replaces reads of it, ifs on constants lose a branch. Then values and slots that nobody reads go. Contraction
(`contract`) comes last, because its rule counts uses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from engine.compiler.contract import Contraction
from engine.compiler.ir import OBSERVED, Function, Op, Region, sweep
from engine.compiler.ops import ELEMENTWISE, LAUNCH
from engine.compiler.simplify_rules import IDENTITIES, fold_op
from engine.compiler.types import Scalar

_PURE = frozenset(
    {*ELEMENTWISE, "cast", "bitcast", "select", "bits", "tid", "address", "load", "get", "local_load", "const", "index",
     "local_pointer", "pointer_to_int", "int_to_pointer", "block_value", "shuffle", "vote"}
)
_PLACES = frozenset({"slot", "local"})
_WRITES_MEMORY = frozenset({"store", "atomic", "barrier"})  # a barrier: other threads do
_COMMUTES = frozenset(name for name, row in ELEMENTWISE.items() if row.commutes)


def simplify(fn: Function, fma: bool = True) -> Function:
    """An equal, smaller function; with `fma`, products and sums are contracted. `fn` is not changed."""
    forward = _Forward()
    for p in fn.params:
        forward.values[p] = p
    with np.errstate(all="ignore"):
        ops = forward.region(fn.body.ops)
    body = Region([*forward.consts.values(), *ops])
    uses = _drop_dead(body)
    if fma:
        Contraction(uses).run(body)
    params = [p for p in fn.params if uses.get(p) or p.attrs.get("index") == LAUNCH]
    return Function(fn.name, params, body, fn.result, fn.file, fn.line, fn.is_kernel)


class _Forward:
    """The forward walk. Every op that it emits is new, so that later steps may change it in place."""

    def __init__(self) -> None:
        self.values: dict[Op, Op] = {}  # old op → new op
        self.consts: dict[tuple[str, str], Op] = {}
        self.equal: dict[tuple[Any, ...], Op] = {}  # values that reach the current op
        self.scope: list[tuple[Any, ...]] = []  # keys added to `equal` in the current region
        self.known: dict[Op, Op] = {}  # slot → the value that it holds here
        self.epoch = 0  # counts writes to memory; loads of one epoch and place are equal
        self.effects: dict[Op, tuple[frozenset[Op], bool]] = {}

    def const(self, t: Scalar, value: Any) -> Op:
        key = (t.name, repr(value))
        op = self.consts.get(key)
        if op is None:
            op = self.consts[key] = Op("const", t, (), {"value": value})
        return op

    def region(self, ops: list[Op]) -> list[Op]:
        out: list[Op] = []
        outer, self.scope = self.scope, []
        self.ops(ops, out)
        for key in self.scope:
            del self.equal[key]
        self.scope = outer
        return out

    def ops(self, ops: list[Op], out: list[Op]) -> None:
        values = self.values
        handlers = _FORWARD
        for op in ops:
            kind = op.kind
            handler = handlers.get(kind)
            if handler is not None:
                handler(self, op, out)
                continue
            operands = tuple([values[v] for v in op.operands])
            if kind in _FOLDED:
                result = self.folded(kind, op, operands)
                if result is not None:
                    values[op] = result
                    continue
                operands = self.ordered
            if kind in _MERGED:
                values[op] = self.merged(op, operands, out)
                continue
            if kind in _WRITES_MEMORY or kind == "local_store" and op.operands[0].attrs.get("exposed"):
                self.epoch += 1
            new = values[op] = Op(kind, op.type, operands, op.attrs, (), op.loc)
            out.append(new)

    def merged(self, op: Op, operands: tuple[Op, ...], out: list[Op]) -> Op:
        """An equal value that reaches this op, or a new op with these operands, which then goes to `out`."""
        kind = op.kind
        key: tuple[Any, ...]
        if kind in _COMMUTES:
            a, b = operands
            key = (kind, a, b) if id(a) <= id(b) else (kind, b, a)
        elif kind in ELEMENTWISE:
            key = (kind, operands)
        elif kind == "load":
            key = (kind, self.epoch, op.attrs["offset"], op.type.name, operands)  # type: ignore[attr-defined]
        elif kind == "block_value":
            key = (kind, op.attrs["name"], operands)
        elif kind == "tid":
            key = (kind, op.attrs["axis"], op.attrs["ndim"])
        else:
            key = (kind, repr(op.type), operands)
        known = self.equal.get(key)
        if known is None:
            known = self.equal[key] = Op(kind, op.type, operands, op.attrs, (), op.loc)
            self.scope.append(key)
            out.append(known)
        return known

    def folded(self, kind: str, op: Op, operands: tuple[Op, ...]) -> Op | None:
        """A value equal to the op that needs no op; else None, and `ordered` has the operands, a constant last."""
        self.ordered = operands
        last = operands[-1]
        if kind in _COMMUTES and operands[0].kind == "const" and last.kind != "const":
            self.ordered = operands = (last, operands[0])
            last = operands[1]
        if last.kind == "const" or operands[0].kind == "const":
            if all(v.kind == "const" for v in operands):
                value = fold_op(kind, op, [v.attrs["value"] for v in operands], operands[0].type)
                if value is not None:
                    return self.const(op.type, value)  # type: ignore[arg-type]
        rule = IDENTITIES.get(kind)
        return rule(self, op, operands) if rule else None

    # slots

    def constant(self, op: Op, out: list[Op]) -> None:
        self.values[op] = self.const(op.type, op.attrs["value"])  # type: ignore[arg-type]

    def get(self, op: Op, out: list[Op]) -> None:
        slot = self.values[op.operands[0]]
        value = self.known.get(slot)
        if value is None:
            value = self.known[slot] = Op("get", op.type, (slot,), None, (), op.loc)
            out.append(value)
        self.values[op] = value

    def set(self, op: Op, out: list[Op]) -> None:
        slot, value = self.values[op.operands[0]], self.values[op.operands[1]]
        if self.known.get(slot) is value:
            return
        self.known[slot] = value
        out.append(Op("set", op.type, (slot, value), None, (), op.loc))

    # control flow

    def effect(self, op: Op) -> tuple[frozenset[Op], bool]:
        """(old slots written, whether memory is written) anywhere below a structured op."""
        known = self.effects.get(op)
        if known is None:
            slots: set[Op] = set()
            memory = False
            for region in op.regions:
                for inner in region.ops:
                    if inner.kind == "set":
                        slots.add(inner.operands[0])
                    elif inner.kind in _WRITES_MEMORY or (
                            inner.kind == "local_store" and inner.operands[0].attrs.get("exposed")):  # fmt: skip
                        memory = True
                    elif inner.regions:
                        below, writes = self.effect(inner)
                        slots |= below
                        memory |= writes
            known = self.effects[op] = frozenset(slots), memory
        return known

    def branch(self, op: Op, out: list[Op]) -> None:
        condition = self.values[op.operands[0]]
        if condition.kind == "const":
            self.ops(op.regions[0 if condition.attrs["value"] else 1].ops, out)
            return
        before = self.known
        regions = []
        for region in op.regions:
            self.known = dict(before)
            regions.append(Region(self.region(region.ops)))
        self.known = before
        self.forget(op)
        out.append(Op("if", op.type, (condition,), op.attrs, tuple(regions), op.loc))

    def loop(self, op: Op, out: list[Op]) -> None:
        operands = tuple([self.values[v] for v in op.operands])
        attrs = op.attrs
        if attrs.get("exit") is not None:
            attrs = {**attrs, "exit": self.values[attrs["exit"]]}
        self.forget(op)
        before = self.known
        regions = []
        for region in op.regions:
            self.known = dict(before)
            regions.append(Region(self.region(region.ops)))
        self.known = before
        self.forget(op)
        out.append(Op(op.kind, op.type, operands, attrs, tuple(regions), op.loc))

    def custom(self, op: Op, out: list[Op]) -> None:
        """The body of a function with its own gradient, which stays together."""
        operands = tuple([self.values[v] for v in op.operands])
        outputs = tuple([self.values[slot] for slot in op.attrs["outputs"]])
        before, self.known = self.known, dict(self.known)
        body = Region(self.region(op.regions[0].ops))
        self.known = before
        self.forget(op)
        out.append(Op("custom", op.type, operands, {**op.attrs, "outputs": outputs}, (body,), op.loc))

    def forget(self, op: Op) -> None:
        """After (and, for loops, before) a structured op nothing is known of what it writes."""
        slots, memory = self.effect(op)
        for slot in slots:
            new = self.values.get(slot)
            if new is not None:
                self.known.pop(new, None)
        if memory:
            self.epoch += 1


_FOLDED = frozenset({*ELEMENTWISE, "cast", "bitcast", "select", "bits"})
_MERGED = _FOLDED | {"load", "tid", "block_value", "address"}
_FORWARD: dict[str, Callable[[_Forward, Op, list[Op]], None]] = {
    "const": _Forward.constant, "get": _Forward.get, "set": _Forward.set, "if": _Forward.branch, "for": _Forward.loop,
    "while": _Forward.loop, "custom": _Forward.custom,
}  # fmt: skip


# dead code


def _is_observed(slot: Op) -> bool:
    return slot.kind == "slot" and str(slot.attrs["name"]).startswith(OBSERVED)


def _drop_dead(body: Region) -> dict[Op, int]:
    """Removes what nobody reads, in place; returns how often each remaining op is used."""
    order: list[Op] = []
    _flatten(body, order)
    uses = {op: int(_is_observed(op)) for op in order}
    for op in order:
        operands = op.operands
        if op.kind == "set":
            operands = operands[1:]  # writing a slot is not reading it
        for v in operands:
            uses[v] = uses.get(v, 0) + 1
        if op.regions and op.attrs.get("exit") is not None:
            uses[op.attrs["exit"]] += 1
    dead: set[Op] = set()
    changed = True
    while changed:
        changed = False
        for op in reversed(order):
            kind = op.kind
            if kind in _PURE:
                if uses[op] or op in dead:
                    continue
                gone = op.operands
            elif kind == "set":
                if uses[op.operands[0]] or op in dead:
                    continue
                gone = op.operands[1:]
                changed = True  # its value may have been computed by ops that were already passed (loops)
            elif kind in ("if", "custom"):
                if op in dead or not all(inner in dead for region in op.regions for inner in region.ops):
                    continue
                gone = op.operands
            elif kind in _PLACES:
                if uses[op] or op in dead:
                    continue
                gone = op.operands
            else:
                continue
            dead.add(op)
            for v in gone:
                uses[v] -= 1
    if dead:
        sweep(body, dead)
    return uses


def _flatten(region: Region, out: list[Op]) -> None:
    for op in region.ops:
        out.append(op)
        for inner in op.regions:
            _flatten(inner, out)
