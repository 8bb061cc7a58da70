"""Runs HIR op by op with NumPy scalars: the meaning that the passes must keep. For tests of hand-built functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.compiler import types as T
from engine.compiler.ir import Function, Op, Region
from engine.compiler.ops import ELEMENTWISE


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class _Return(Exception):
    pass


def interpret(fn: Function, args: list[Any], thread: int = 0) -> Any:
    """Result of one call; arrays are NumPy arrays that stores write to, aggregates are lists of their parts."""
    frame = _Frame(fn, args, thread)
    try:
        frame.region(fn.body)
    except _Return as leave:
        return leave.args[0]
    return None


def elementwise(name: str, result: T.Type, values: list[Any]) -> Any:
    if isinstance(values[0], list):
        return [elementwise(name, T.components(result)[0], list(row)) for row in zip(*values)]
    with np.errstate(all="ignore"):
        return result.numpy.type(ELEMENTWISE[name].numpy(*values))


class _Frame:
    def __init__(self, fn: Function, args: list[Any], thread: int):
        self.values: dict[Op, Any] = dict(zip(fn.params, args, strict=True))
        self.slots: dict[Op, Any] = {}
        self.thread = thread

    def region(self, region: Region) -> None:
        for op in region.ops:
            v = [self.values.get(o) for o in op.operands]
            if op.kind in ELEMENTWISE:
                self.values[op] = elementwise(op.kind, op.type, v)
            else:
                self.values[op] = getattr(self, f"do_{op.kind}")(op, v)

    def do_const(self, op: Op, v: list[Any]) -> Any:
        return op.type.numpy.type(op.attrs["value"])

    def do_tid(self, op: Op, v: list[Any]) -> Any:
        return np.int32(self.thread)

    def do_slot(self, op: Op, v: list[Any]) -> Any:
        return None

    def do_get(self, op: Op, v: list[Any]) -> Any:
        return self.slots[op.operands[0]]

    def do_set(self, op: Op, v: list[Any]) -> None:
        self.slots[op.operands[0]] = v[1]

    def do_make(self, op: Op, v: list[Any]) -> Any:
        return list(v)

    def do_extract(self, op: Op, v: list[Any]) -> Any:
        return v[0][op.attrs["index"]]

    def do_insert(self, op: Op, v: list[Any]) -> Any:
        parts = list(v[0])
        parts[op.attrs["index"]] = v[1]
        return parts

    def do_extract_at(self, op: Op, v: list[Any]) -> Any:
        return v[0][v[1] if 0 <= v[1] < len(v[0]) else 0]

    def do_insert_at(self, op: Op, v: list[Any]) -> Any:
        return [v[2] if k == v[1] else part for k, part in enumerate(v[0])]

    def do_select(self, op: Op, v: list[Any]) -> Any:
        return v[1] if v[0] else v[2]

    def do_load(self, op: Op, v: list[Any]) -> Any:
        return v[0][tuple(v[1:])]

    def do_store(self, op: Op, v: list[Any]) -> None:
        v[0][tuple(v[1:-1])] = v[-1]

    def do_call(self, op: Op, v: list[Any]) -> Any:
        return interpret(op.attrs["callee"], v, self.thread)

    def do_return(self, op: Op, v: list[Any]) -> None:
        raise _Return(v[0] if v else None)

    def do_break(self, op: Op, v: list[Any]) -> None:
        raise _Break

    def do_continue(self, op: Op, v: list[Any]) -> None:
        raise _Continue

    def do_if(self, op: Op, v: list[Any]) -> None:
        self.region(op.regions[0 if v[0] else 1])

    def do_for(self, op: Op, v: list[Any]) -> None:
        start, stop, step = map(int, v)
        for i in range(start, stop, step) if step else ():
            self.values[op.regions[0].ops[0]] = op.operands[0].type.numpy.type(i)
            if self.leaves(Region(op.regions[0].ops[1:])) or self.exits(op):
                break

    def do_while(self, op: Op, v: list[Any]) -> None:
        condition, body = op.regions
        while True:
            self.region(Region(condition.ops[:-1]))
            if not self.values[condition.ops[-1].operands[0]]:
                return
            if self.leaves(body) or self.exits(op):
                return

    def exits(self, op: Op) -> bool:
        return "exit" in op.attrs and bool(self.slots[op.attrs["exit"]])

    def leaves(self, body: Region) -> bool:
        """Runs one iteration; true when it broke out of the loop."""
        try:
            self.region(body)
        except _Continue:
            pass
        except _Break:
            return True
        return False
