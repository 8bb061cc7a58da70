"""Which values of a MIR kernel agree in all lanes of a vector of threads, and which grow by a constant step (analysis).

A vector holds threads whose last grid index runs by one. Every value gets a *stride*: 0 where all lanes have the same
value (uniform), c where lane l has the value of lane 0 plus c·l (affine), `VARYING` otherwise. Slots and local arrays
are *places*: they have a stride, too, if all that is ever written to them has it, and no lane may miss a write.

A write may be missed by lanes when the control flow between it and the innermost region that holds every access to
the place can differ between lanes (`divergent`). Only such a write needs a mask. What lies outside of that region does
not matter: all lanes that run it run it together, and a lane that does not never reads the place.

The answer is a fixpoint from the optimistic side: everything starts as "not known yet" and only ever gets worse.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from engine.compiler.ir import Function, Op, Region
from engine.compiler.types import Pointer

VARYING = None
UNKNOWN = "unknown"  # not reached yet by the fixpoint
MAX_STRIDE = 64  # a longer step is of no use to anybody, and such values are mostly hashes, which wrap

Stride = Any  # int, VARYING, or UNKNOWN while the fixpoint runs
Chain = tuple[tuple[Op, int], ...]  # the regions around an op, each as (structured op, which region), outermost first

_READS, _WRITES = frozenset({"get", "local_load"}), frozenset({"set", "local_store", "local"})


@dataclass
class _Place:
    """All accesses to one slot or local array."""

    chains: list[Chain] = field(default_factory=list)
    writes: list[tuple[Op, Chain]] = field(default_factory=list)


class Uniformity:
    """The analysis of one kernel; `aligned` loops run their index in step for all lanes (see `emit_lanes_control`)."""

    def __init__(self, fn: Function, aligned: frozenset[Op] = frozenset()):
        self.fn, self.aligned = fn, aligned
        self.strides: dict[Op, Stride] = dict.fromkeys(fn.params, 0)
        self.divergent: set[Op] = set()  # ifs whose condition, loops whose trips may differ between lanes
        self.order: list[Op] = []
        self.places: dict[Op, _Place] = {}
        self.used: set[Op] = set()  # ops whose value somebody reads
        self.loop_index: dict[Op, Stride] = {}
        self._collect(fn.body, ())
        self._between = {
            write: frozenset(op for op, _ in chain[common:])
            for place in self.places.values()
            for common in (_common(place.chains),)
            for write, chain in place.writes
        }
        self._run()

    def stride(self, op: Op) -> int | None:
        return self.strides[op]

    def misses(self, write: Op) -> bool:
        """Whether some lanes that read the place later may not run this write, so that it needs a mask."""
        return not self._between[write].isdisjoint(self.divergent)

    def lane_bytes(self, op: Op) -> int | None:
        """Of an access to memory: bytes from the address of a lane to the next lane's; None where that varies."""
        n, strides = op.attrs["ndim"], self.strides
        total = strides[op.operands[0]]
        for index, by in zip(op.operands[1 : 1 + n], op.operands[1 + n : 1 + 2 * n], strict=True):
            step = strides[index]
            if step == 0 and strides[by] == 0:
                continue
            size = constant_stride(by)
            if total is None or step is None or size is None:
                return None
            total += step * size
        return total

    def is_whole(self, op: Op) -> bool:
        """Whether lanes access neighbouring elements of a dense dimension, with no element between them."""
        places = op.operands[: 1 + op.attrs["ndim"]]
        return [self.strides[v] for v in places] == [0] * op.attrs["ndim"] + [1]

    # walking

    def _collect(self, region: Region, chain: Chain) -> None:
        for op in region.ops:
            self.order.append(op)
            self.used.update(op.operands)
            kind = op.kind
            if kind in _READS or kind in _WRITES:
                place = self.places.setdefault(op if kind == "local" else op.operands[0], _Place())
                place.chains.append(chain)
                if kind in _WRITES:
                    place.writes.append((op, chain))
            slot = op.attrs.get("exit") if op.regions else None
            if slot is not None:
                self.places.setdefault(slot, _Place()).chains.append((*chain, (op, len(op.regions) - 1)))
            for k, inner in enumerate(op.regions):
                self._collect(inner, (*chain, (op, k)))

    def _run(self) -> None:
        strides = self.strides
        for op in self.order:
            strides[op] = 0 if op.kind == "const" else UNKNOWN
        changed = True
        while changed:
            changed = False
            for op in self.order:
                new = self._transfer(op)
                if new != strides[op]:
                    strides[op] = new
                    changed = True
                if op.regions and op not in self.divergent and self._diverges(op):
                    self.divergent.add(op)
                    changed = True
        for op in self.order:
            if strides[op] is UNKNOWN:  # never reached, or nothing but itself: any choice is right
                strides[op] = 0

    def _diverges(self, op: Op) -> bool:
        strides = self.strides
        exit_slot = op.attrs.get("exit")
        if exit_slot is not None and strides[exit_slot] is VARYING:
            return True
        if op.kind == "if":
            return strides[op.operands[0]] is VARYING
        if op.kind == "while":
            return strides[op.regions[0].ops[-1].operands[0]] is VARYING
        start, stop, step = (strides[v] for v in op.operands)
        return step not in (0, UNKNOWN) or VARYING in (start, stop) or (start != stop and UNKNOWN not in (start, stop))

    # the rules

    def _transfer(self, op: Op) -> Stride:
        rule = _RULES.get(op.kind)
        if rule is not None:
            return rule(self, op)
        inputs = [self.strides[v] for v in op.operands]
        if UNKNOWN in inputs:
            return UNKNOWN
        return 0 if not any(s is VARYING or s for s in inputs) else VARYING

    def _const(self, op: Op) -> Stride:
        return 0

    def _tid(self, op: Op) -> Stride:
        return 1 if op.attrs["axis"] == op.attrs["ndim"] - 1 else 0

    def _atomic(self, op: Op) -> Stride:
        return VARYING

    def _place(self, op: Op) -> Stride:
        """Slots and local arrays."""
        place = self.places.get(op)
        result: Stride = UNKNOWN
        for write, _ in place.writes if place else ():
            if self.misses(write):
                return VARYING
            result = _joined(result, self._written(write))
        return result

    def _written(self, write: Op) -> Stride:
        if write.kind == "local":
            return 0
        if write.kind == "set":
            return self.strides[write.operands[1]]
        index, value = (self.strides[v] for v in write.operands[1:])
        if UNKNOWN in (index, value):
            return UNKNOWN
        return 0 if index == 0 and value == 0 else VARYING

    def _get(self, op: Op) -> Stride:
        return self.strides[op.operands[0]]

    def _index(self, op: Op) -> Stride:
        return self.loop_index[op]

    def _for(self, op: Op) -> Stride:
        """Lanes start together, so that the index is as affine as the start is, whether they stop together or not."""
        start, step = self.strides[op.operands[0]], self.strides[op.operands[2]]
        index = op.regions[0].ops[0]
        if op in self.aligned:
            known: Stride = 0
        elif step not in (0, UNKNOWN):
            known = VARYING
        else:
            known = start
        self.loop_index[index] = known
        return 0

    def _integer(self, op: Op) -> Stride:
        """add, sub, mul, shl, neg and casts of signed integers keep steps; what wraps keeps them modulo its width."""
        inputs = [self.strides[v] for v in op.operands]
        if UNKNOWN in inputs:
            return UNKNOWN
        if not any(s is VARYING or s for s in inputs):
            return 0
        t = op.type
        pointer = isinstance(t, Pointer)
        if VARYING in inputs or not (pointer or _is_index(t)) or not all(
            isinstance(v.type, Pointer) or _is_index(v.type) for v in op.operands
        ):
            return VARYING
        result = _stepped(op, inputs)
        return result if result is not VARYING and abs(result) <= MAX_STRIDE else VARYING

    def _select(self, op: Op) -> Stride:
        condition, a, b = (self.strides[v] for v in op.operands)
        if UNKNOWN in (condition, a, b):
            return UNKNOWN
        return a if condition == 0 and a == b else VARYING


def constant_stride(v: Op) -> int | None:
    """An array stride in bytes that is known while compiling; the lanes shape takes arrays without gaps for granted."""
    return v.attrs.get("value") if v.kind == "const" else v.attrs.get("dense")


def _is_index(t: Any) -> bool:
    return t.kind == "i" and t.bits >= 32


def _stepped(op: Op, inputs: list[int]) -> int | None:
    """The stride of an integer op on affine operands."""
    match op.kind:
        case "add" | "address":
            return inputs[0] + inputs[1]
        case "sub":
            return inputs[0] - inputs[1]
        case "neg":
            return -inputs[0]
        case "cast":
            return inputs[0]
        case "mul":
            for k in (0, 1):
                if op.operands[k].kind == "const":
                    return inputs[1 - k] * op.operands[k].attrs["value"]
        case "shl":
            count = op.operands[1]
            if count.kind == "const" and 0 <= count.attrs["value"] < 8:
                return inputs[0] << count.attrs["value"]
    return VARYING


def _joined(a: Stride, b: Stride) -> Stride:
    if a is UNKNOWN or b is UNKNOWN:
        return b if a is UNKNOWN else a
    return a if a == b else VARYING


def _common(chains: list[Chain]) -> int:
    """How many regions all chains share."""
    first, last = min(chains, key=_identity), max(chains, key=_identity)
    count = 0
    for a, b in zip(first, last):
        if a[0] is not b[0] or a[1] != b[1]:
            break
        count += 1
    return count


def _identity(chain: Chain) -> list[tuple[int, int]]:
    return [(id(op), k) for op, k in chain]


_U = Uniformity
_RULES = {
    "const": _U._const, "tid": _U._tid, "atomic": _U._atomic, "slot": _U._place, "local": _U._place, "get": _U._get,
    "index": _U._index, "for": _U._for, "select": _U._select, "if": _U._const, "while": _U._const,
    **dict.fromkeys(("add", "sub", "mul", "shl", "neg", "cast", "address"), _U._integer),
}  # fmt: skip
