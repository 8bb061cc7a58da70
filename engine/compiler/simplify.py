"""Makes MIR smaller without changing a bit of what it computes, then contracts a*b+c to fma (MIR to MIR).

In one walk: constants fold, exact identities apply, equal pure values merge, a slot's last written value replaces reads
of it, ifs on constants lose a branch. Then values and slots that nobody reads go. Floating point keeps IEEE: no x+0, no
x*0, no reassociation.

Contraction comes last and is the only step that changes a rounding. The rule looks at the MIR alone, so that all
targets and both code shapes agree. With m, n products that have exactly one use, in this order:

    x + m → fma(m.a, m.b, x)        m + y → fma(m.a, m.b, y)
    x - m → fma(-m.a, m.b, x)       m - y → fma(m.a, m.b, -y)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from engine.compiler.ir import Function, Op, Region
from engine.compiler.ops import ELEMENTWISE, fold
from engine.compiler.types import Scalar, bool_

_PURE = frozenset(
    {*ELEMENTWISE, "cast", "bitcast", "select", "tid", "address", "load", "get", "local_load", "const", "index"}
)
_PLACES = frozenset({"slot", "local"})
_WRITES_MEMORY = frozenset({"store", "atomic"})
_COMMUTES = frozenset(name for name, row in ELEMENTWISE.items() if row.commutes)


def simplify(fn: Function, fma: bool = True) -> Function:
    """An equal, smaller function; with `fma`, products and sums are contracted. `fn` is not changed."""
    forward = _Forward()
    for p in fn.params:
        forward.values[p] = p
    ops = forward.region(fn.body.ops)
    body = Region([*forward.consts.values(), *ops])
    uses = _drop_dead(body)
    if fma:
        _Contraction(uses).run(body)
    params = [p for p in fn.params if uses.get(p)]
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
            if kind in _WRITES_MEMORY:
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
                value = _fold_op(kind, op, [v.attrs["value"] for v in operands], operands[0].type)
                if value is not None:
                    return self.const(op.type, value)  # type: ignore[arg-type]
        rule = _IDENTITIES.get(kind)
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
                    elif inner.kind in _WRITES_MEMORY:
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

    def forget(self, op: Op) -> None:
        """After (and, for loops, before) a structured op nothing is known of what it writes."""
        slots, memory = self.effect(op)
        for slot in slots:
            new = self.values.get(slot)
            if new is not None:
                self.known.pop(new, None)
        if memory:
            self.epoch += 1


_FOLDED = frozenset({*ELEMENTWISE, "cast", "bitcast", "select"})
_MERGED = _FOLDED | {"load", "tid", "address"}
_FORWARD: dict[str, Callable[[_Forward, Op, list[Op]], None]] = {
    "const": _Forward.constant, "get": _Forward.get, "set": _Forward.set, "if": _Forward.branch, "for": _Forward.loop,
    "while": _Forward.loop,
}  # fmt: skip


def _fold_op(kind: str, op: Op, values: list[Any], source: Any) -> Any:
    """The op on constants as a Python number, or None where folding is left to run time."""
    if kind == "select":
        return values[1] if values[0] else values[2]
    if kind == "bitcast":
        return np.array(values[0], source.numpy).view(op.type.numpy).item()  # type: ignore[attr-defined]
    if kind == "cast":
        return cast_constant(values[0], op.type)  # type: ignore[arg-type]
    if source.bits == 16 and source.is_float:
        return None
    with np.errstate(all="ignore"):
        return fold(kind, source, values)


def cast_constant(value: Any, to: Scalar) -> Any:
    """`cast` of a Python number; None where NumPy would round twice (huge integers to float32)."""
    if to.kind == "b":
        return value != 0
    if to.is_float:
        if isinstance(value, int) and abs(value) >= 2**53:
            return None
        with np.errstate(all="ignore"):
            return to.numpy.type(value).item()
    low, high = to.range
    if isinstance(value, float):
        return (
            0
            if math.isnan(value)
            else int(max(low, min(high, value)))
            if math.isfinite(value)
            else (low, high)[value > 0]
        )
    value = int(value) & ((1 << to.bits) - 1)
    return value - (1 << to.bits) if value > high else value


# identities: each returns an existing value or None

Rule = Callable[[_Forward, Op, tuple[Op, ...]], "Op | None"]


def _constant(op: Op) -> Any:
    return op.attrs["value"] if op.kind == "const" else None


def _is_neutral(value: Any, t: Any, whole: Any, real: float) -> bool:
    """Whether a constant is the neutral element: `whole` for integers and truths, `real` (with its sign) for floats."""
    if value is None:
        return False
    if t.kind == "f":
        return value == real and math.copysign(1.0, value) == math.copysign(1.0, real)
    return value == whole


def _neutral(whole: Any, real: float) -> Rule:
    return lambda f, op, v: v[0] if _is_neutral(_constant(v[1]), op.type, whole, real) else None


def _multiply(f: _Forward, op: Op, v: tuple[Op, ...]) -> Op | None:
    value, t = _constant(v[1]), op.type
    if _is_neutral(value, t, 1, 1.0):
        return v[0]
    return v[1] if value == 0 and t.kind in "iu" else None  # type: ignore[attr-defined]


def _subtract(f: _Forward, op: Op, v: tuple[Op, ...]) -> Op | None:
    t: Scalar = op.type  # type: ignore[assignment]
    if v[0] is v[1] and t.is_int:
        return f.const(t, 0)
    return v[0] if _is_neutral(_constant(v[1]), t, 0, 0.0) else None


def _and(f: _Forward, op: Op, v: tuple[Op, ...]) -> Op | None:
    value, t = _constant(v[1]), op.type
    if v[0] is v[1] or value == _ones(t):
        return v[0]
    return v[1] if value == 0 else None


def _or(f: _Forward, op: Op, v: tuple[Op, ...]) -> Op | None:
    value, t = _constant(v[1]), op.type
    if v[0] is v[1] or value == 0:
        return v[0]
    return v[1] if value == _ones(t) else None


def _ones(t: Any) -> Any:
    return True if t.kind == "b" else -1 if t.kind == "i" else t.range[1]


def _involution(f: _Forward, op: Op, v: tuple[Op, ...]) -> Op | None:
    return v[0].operands[0] if v[0].kind == op.kind else None


def _equal(f: _Forward, op: Op, v: tuple[Op, ...]) -> Op | None:
    return v[0] if v[1].type is bool_ and _constant(v[1]) is True else None


def _unequal(f: _Forward, op: Op, v: tuple[Op, ...]) -> Op | None:
    return v[0] if v[1].type is bool_ and _constant(v[1]) is False else None


def _cast(f: _Forward, op: Op, v: tuple[Op, ...]) -> Op | None:
    return v[0] if v[0].type is op.type else None


def _select(f: _Forward, op: Op, v: tuple[Op, ...]) -> Op | None:
    condition, a, b = v
    if condition.kind == "const":
        return a if condition.attrs["value"] else b
    if a is b:
        return a
    return condition if op.type is bool_ and _constant(a) is True and _constant(b) is False else None


_IDENTITIES: dict[
    str, Rule] = { "add": _neutral(0, -0.0), "sub": _subtract, "mul": _multiply, "div": _neutral(1, 1.0),
    "floordiv": _neutral(1, 1.0), "and": _and, "or": _or, "xor": _neutral(0, 0.0), "shl": _neutral(0, 0.0),
    "shr": _neutral(0, 0.0), "neg": _involution, "not": _involution, "eq": _equal, "ne": _unequal, "cast": _cast,
    "bitcast": _cast, "select": _select,
}  # fmt: skip


# dead code


def _drop_dead(body: Region) -> dict[Op, int]:
    """Removes what nobody reads, in place; returns how often each remaining op is used."""
    order: list[Op] = []
    _flatten(body, order)
    uses = dict.fromkeys(order, 0)
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
            elif kind == "if":
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
        _sweep(body, dead)
    return uses


def _flatten(region: Region, out: list[Op]) -> None:
    for op in region.ops:
        out.append(op)
        for inner in op.regions:
            _flatten(inner, out)


def _sweep(region: Region, dead: set[Op]) -> None:
    region.ops = [op for op in region.ops if op not in dead or op.kind == "index"]
    for op in region.ops:
        for inner in op.regions:
            _sweep(inner, dead)


# contraction


class _Contraction:
    """Applies the rule of this file's header, in place."""

    def __init__(self, uses: dict[Op, int]):
        self.uses = uses
        self.absorbed: set[Op] = set()
        self.consts: list[Op] = []

    def run(self, body: Region) -> None:
        self.region(body)
        if self.absorbed:
            _sweep(body, self.absorbed)
            body.ops[:0] = self.consts

    def region(self, region: Region) -> None:
        uses = self.uses
        out: list[Op] = []
        for op in region.ops:
            kind = op.kind
            if kind == "add" or kind == "sub":
                t: Scalar = op.type  # type: ignore[assignment]
                if t.kind == "f" and t.bits != 16:
                    x, y = op.operands
                    if y.kind == "mul" and uses[y] == 1:
                        a, b = y.operands
                        self.absorb(y)
                        op.kind, op.operands = "fma", (a if kind == "add" else self.negated(a, out), b, x)
                    elif x.kind == "mul" and uses[x] == 1:
                        self.absorb(x)
                        op.kind, op.operands = "fma", (*x.operands, y if kind == "add" else self.negated(y, out))
            for inner in op.regions:
                self.region(inner)
            out.append(op)
        region.ops = out

    def absorb(self, product: Op) -> None:
        """The product goes; its operands are used by the fma instead, so their counts stay."""
        self.uses[product] = 0
        self.absorbed.add(product)

    def negated(self, v: Op, out: list[Op]) -> Op:
        """-v, which takes over one use of v."""
        uses = self.uses
        if v.kind == "neg":
            uses[v] -= 1
            inner = v.operands[0]
            if uses[v]:
                uses[inner] += 1
            else:
                self.absorbed.add(v)
            return inner
        if v.kind == "const":
            uses[v] -= 1
            if not uses[v]:
                self.absorbed.add(v)
            op = Op("const", v.type, (), {"value": -v.attrs["value"]})
            self.consts.append(op)
        else:
            op = Op("neg", v.type, (v,), None, (), v.loc)
            out.append(op)
        uses[op] = 1
        return op
