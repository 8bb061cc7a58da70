"""Which values a gradient flows through: those that depend on an active array and that an active array depends on.

Two walks to a fixed point: *varied* forward (from loads of active arrays), *useful* backward (from stores into them);
their intersection is *active* (Hascoët & Pascual, The Tapenade Automatic Differentiation Tool, ACM TOMS 39(3), 2013).
A float whose bits were taken apart and put together again has no rule; `opaque` lists the places where that happens.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from engine.compiler.adjoint_flow import Block, Flow, blocks_of, is_float, results_of
from engine.compiler.adjoint_rules import is_flat
from engine.compiler.ir import Op
from engine.compiler.types import LocalArray, Pointer

ArrayKey = tuple[int, tuple[Any, ...]]  # parameter, and the path to the array in it


def array_key(param: Op) -> ArrayKey:
    """The array that a pointer parameter belongs to; all planes of an array are one."""
    path = param.attrs["path"]
    return param.attrs["index"], path[:-2] if len(path) > 1 and path[-2] == "plane" else path[:-1]


def roots(pointer: Op) -> set[Op]:
    """The parameters that a pointer may come from."""
    return {op for op in bases(pointer) if op.kind == "param"}


def local_bases(pointer: Op) -> set[Op]:
    """The local arrays that a pointer may come from."""
    return {op for op in bases(pointer) if op.kind == "local"}


def bases(pointer: Op) -> set[Op]:
    """What a pointer may come from: parameters, local arrays, or an op that makes it of something else."""
    found: set[Op] = set()
    todo, seen = [pointer], {pointer}
    while todo:
        op = todo.pop()
        if not _sources(op):
            found.add(op)
        for v in _sources(op):
            if v not in seen:
                seen.add(v)
                todo.append(v)
    return found


def _sources(op: Op) -> list[Op]:
    match op.kind:
        case "address" | "local_pointer":
            return [op.operands[0]]
        case "select":
            return list(op.operands[1:])
        case "result":
            owner, k = op.attrs["of"], op.attrs["index"]
            return [v for b in blocks_of(owner) for v in (b.yields[k], *b.inits[k : k + 1])]
        case "phi":
            block = op.attrs["body"]
            k = block.params.index(op)
            return [block.inits[k], block.yields[k]]
    return []


def accesses(flow: Flow, kinds: Iterable[str]) -> Iterable[tuple[Op, set[ArrayKey]]]:
    """Ops of these kinds (load, store, atomic), each with the arrays that it may touch."""
    for _, op in flow.ops():
        if op.kind in kinds:
            yield op, {array_key(p) for p in roots(op.operands[0])}


class Activity:
    """The answer for one function and a set of active arrays."""

    def __init__(self, flow: Flow, arrays: frozenset[ArrayKey], inputs: frozenset[Op] = frozenset()):
        self.flow, self.arrays = flow, arrays
        self.varied: set[Op] = set(inputs)
        self.useful: set[Op] = {v for op in flow.root.ops if op.kind == "yield" for v in op.operands}
        self.bits: set[Op] = set()  # integers made from the bits of varied floats
        self.opaque: set[Op] = set()
        for walk in (self.forward, self.backward):
            while walk(flow.root):
                pass

    def __contains__(self, op: Op) -> bool:
        return op in self.varied and op in self.useful

    def is_active_pointer(self, pointer: Op) -> bool:
        """Whether it may lead into an array with a gradient."""
        return any(array_key(p) in self.arrays for p in roots(pointer))

    def leads_into(self, pointer: Op, found: set[Op]) -> bool:
        """Whether it may lead into an active array, or a local array of `found`."""
        return self.is_active_pointer(pointer) or any(local in found for local in local_bases(pointer))

    # forward

    def mark(self, op: Op, holds: bool, found: set[Op]) -> bool:
        if holds and op not in found:
            found.add(op)
            return True
        return False

    def forward(self, block: Block) -> bool:
        changed = False
        for phi, init, last in zip(block.params, block.inits, block.yields, strict=False):
            for found in (self.varied, self.bits):
                changed |= self.mark(phi, init in found or last in found, found)
        for op in block.ops:
            if op.kind != "custom":
                for inner in blocks_of(op):
                    changed |= self.forward(inner)
            changed |= self.forward_op(op)
        return changed

    def forward_op(self, op: Op) -> bool:
        kind, varied, bits = op.kind, self.varied, self.bits
        if kind in ("if", "loop"):
            changed = False
            for k, result in enumerate(results_of(op)):
                sources = [v for b in blocks_of(op) for v in (b.yields[k], *b.inits[k : k + 1])]
                for found in (varied, bits):
                    changed |= self.mark(result, any(v in found for v in sources), found)
            return changed
        if kind == "custom":
            moved = self.custom_varies(op)
            marked = [self.mark(r, moved and is_float(r.type), varied) for r in results_of(op)]
            return any(marked)
        if kind in ("store", "atomic"):
            moves = op.operands[-1] in varied
            locals_marked = [self.mark(local, moves, varied) for local in local_bases(op.operands[0])]
            if any(locals_marked):
                return True
        if kind in ("load", "atomic"):
            return is_float(op.type) and self.mark(op, self.leads_into(op.operands[0], varied), varied)
        if kind == "local_load":
            return self.mark(op, op.operands[0] in varied, varied) | self.mark(op, op.operands[0] in bits, bits)
        if kind == "local_store":
            array, v = op.operands[0], op.operands[2]
            return self.mark(array, v in varied, varied) | self.mark(array, v in bits, bits)
        if kind == "bitcast":
            v = op.operands[0]
            if is_float(op.type):
                if v in bits:
                    self.opaque.add(op)
                return self.mark(op, v in bits or v in varied, varied)
            return self.mark(op, v in varied or v in bits, bits)
        if is_float(op.type):
            return self.mark(op, not is_flat(kind) and any(v in varied for v in op.operands), varied)
        if kind == "cast" and is_float(op.operands[0].type):
            return False
        return self.mark(op, any(v in bits for v in op.operands), bits)

    def custom_varies(self, op: Op) -> bool:
        return any(self.is_active_pointer(v) if isinstance(v.type, Pointer) else v in self.varied for v in op.operands)

    # backward

    def backward(self, block: Block) -> bool:
        changed = False
        for op in reversed(block.ops):
            changed |= self.backward_op(op)
            if op.kind != "custom":
                for inner in blocks_of(op):
                    changed |= self.backward(inner)
        for k, (phi, init) in enumerate(zip(block.params, block.inits, strict=True)):
            if phi in self.useful:
                changed |= self.mark(init, True, self.useful) | self.mark(block.yields[k], True, self.useful)
        return changed

    def backward_op(self, op: Op) -> bool:
        kind, useful = op.kind, self.useful
        if kind in ("if", "loop"):
            changed = False
            for k, result in enumerate(results_of(op)):
                if result in useful:
                    for b in blocks_of(op):
                        for v in (b.yields[k], *b.inits[k : k + 1], *b.params[k : k + 1]):
                            changed |= self.mark(v, True, useful)
            return changed
        if kind == "custom":
            wanted = not op.attrs["outputs"] or any(v in useful for v in op.attrs["outputs"] if v)
            marked = [self.mark(v, wanted and is_float(v.type), useful) for v in op.operands]
            return any(marked)
        if kind in ("store", "atomic"):
            v = op.operands[-1]
            return is_float(v.type) and self.mark(v, self.leads_into(op.operands[0], useful), useful)
        if kind == "local_store":
            return self.mark(op.operands[2], op.operands[0] in useful, useful)
        if op not in useful or is_flat(kind):
            return False
        if kind == "local_load":
            return self.mark(op.operands[0], True, useful)
        if kind == "load":
            marked = [self.mark(local, True, useful) for local in local_bases(op.operands[0])]
            return any(marked)
        changed = False
        for v in op.operands:
            if is_float(v.type) or isinstance(v.type, LocalArray):
                changed |= self.mark(v, True, useful)
        return changed
