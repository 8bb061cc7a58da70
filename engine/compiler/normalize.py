"""Turns break, continue and return into slots and nested ifs, so that every loop has one latch (HIR to HIR).

An `if` whose one branch always leaves takes what follows it into the other branch; that needs no flag and covers guard
clauses (`if out: return`, `if done: break`). What may leave in any other way sets a flag that guards the rest:

    for i in …:                 exit = False
        if a:                   for i in … exit=exit:          (the loop ends when the slot is true at its latch)
            if b: break   →         if a:
            x                           if b: exit = True  else: x
        y                           if not exit: y

After this pass a function with a result ends with its only `return`, at the top level; no other op leaves.
"""

from __future__ import annotations

from engine.compiler.ir import Function, Op, Region
from engine.compiler.types import Void, bool_

BREAK, CONTINUE, RETURN = 1, 2, 4
_MASK = {"break": BREAK, "continue": CONTINUE, "return": RETURN}


def normalize(fn: Function) -> Function:
    """`fn` with one exit; `fn` itself when it is so already. `fn` is not changed."""
    rewriter = _Normalizer(fn)
    mask = rewriter.measure(fn.body)
    if not rewriter.leaving:
        return fn
    only_tail_returns = len(rewriter.leaving) == 1 and fn.body.ops[-1].kind == "return"
    if only_tail_returns and not isinstance(fn.result, Void):
        return fn
    return rewriter.function(mask)


class _Flag:
    """A truth slot made only if something reads it; until then its writes are only noted down."""

    def __init__(self, name: str):
        self.slot = Op("slot", bool_, (), {"name": name})
        self.needed = False
        self.writes: list[tuple[list[Op], Op]] = []  # each `set` with the list that it stands in


class _Loop:
    def __init__(self) -> None:
        self.exit = _Flag("exit")
        self.skip = _Flag("skip")  # leaves this iteration only


class _Normalizer:
    def __init__(self, fn: Function):
        self.fn = fn
        self.masks: dict[Op, int] = {}  # ways in which an op may leave the region that it stands in
        self.leaving: set[Op] = set()  # break, continue, return ops and all ops around them
        self.true = Op("const", bool_, (), {"value": True})
        self.false = Op("const", bool_, (), {"value": False})
        self.returned = _Flag("returned")
        self.result: Op | None = None
        self.flags: list[_Flag] = [self.returned]

    def measure(self, region: Region) -> int:
        """Fills `masks` and `leaving` below `region`; returns the ways in which its ops may leave."""
        total = 0
        for op in region.ops:
            kind = op.kind
            if op.regions:
                mask, inside = 0, len(self.leaving)
                for inner in op.regions:
                    mask |= self.measure(inner)
                if len(self.leaving) != inside:
                    self.leaving.add(op)
                if kind != "if":
                    mask &= RETURN
            else:
                mask = _MASK.get(kind, 0)
                if mask:
                    self.leaving.add(op)
            if mask:
                self.masks[op] = mask
                total |= mask
        return total

    def function(self, mask: int) -> Function:
        fn = self.fn
        ops = fn.body.ops
        tail: list[Op] = []
        head: list[Op] = [self.true, self.false]
        if not isinstance(fn.result, Void):
            if ops and ops[-1].kind == "return" and not any(self.masks.get(op, 0) & RETURN for op in ops[:-1]):
                ops, tail = ops[:-1], [ops[-1]]
            else:
                self.result = Op("slot", fn.result, (), {"name": "result"})
                value = Op("get", fn.result, (self.result,))
                head.append(self.result)
                tail = [value, Op("return", operands=(value,))]
        body = self.rewrite(ops, [])
        self.drop_unread_flags()
        if self.returned.needed:
            head += self.reset(self.returned)
        return Function(fn.name, fn.params, Region([*head, *body, *tail]), fn.result, fn.file, fn.line, fn.is_kernel)

    def drop_unread_flags(self) -> None:
        for flag in self.flags:
            if not flag.needed:
                for ops, write in flag.writes:
                    ops.remove(write)

    def reset(self, flag: _Flag) -> list[Op]:
        return [flag.slot, Op("set", operands=(flag.slot, self.false))]

    def rewrite(self, ops: list[Op], loops: list[_Loop]) -> list[Op]:
        """The ops of one region, `loops` around it from the outermost in."""
        out: list[Op] = []
        for k, op in enumerate(ops):
            if op not in self.leaving:
                out.append(op)
                continue
            if op.kind in _MASK:
                self.leave(op, out, loops)
                return out  # what follows is never reached
            if op.kind != "if":
                self.loop(op, out, loops)
            elif self.branch(op, ops[k + 1 :], out, loops):
                return out
            mask = self.masks.get(op, 0)
            if mask and k + 1 < len(ops):
                self.guard(mask, ops[k + 1 :], out, loops, op)
                return out
        return out

    def leave(self, op: Op, out: list[Op], loops: list[_Loop]) -> None:
        """Writes the flags that a break, continue or return stands for."""
        if op.kind == "return":
            if op.operands and self.result is not None:
                out.append(Op("set", operands=(self.result, op.operands[0]), loc=op.loc))
            flags = [self.returned]
            for loop in loops:
                flags += [loop.exit, loop.skip]
        elif op.kind == "break":
            flags = [loops[-1].exit, loops[-1].skip]
        else:
            flags = [loops[-1].skip]
        for flag in flags:
            write = Op("set", operands=(flag.slot, self.true), loc=op.loc)
            flag.writes.append((out, write))
            out.append(write)

    def branch(self, op: Op, rest: list[Op], out: list[Op], loops: list[_Loop]) -> bool:
        """Rewrites an `if`; true when the ops after it went into a branch or are never reached."""
        then, other = (r.ops for r in op.regions)
        then_leaves, other_leaves = _always_leaves(then), _always_leaves(other)
        if then_leaves and not other_leaves:
            other = other + rest
        elif other_leaves and not then_leaves:
            then = then + rest
        regions = Region(self.rewrite(then, loops)), Region(self.rewrite(other, loops))
        out.append(Op("if", operands=op.operands, regions=regions, loc=op.loc))
        return then_leaves or other_leaves

    def loop(self, op: Op, out: list[Op], loops: list[_Loop]) -> None:
        loop = _Loop()
        self.flags += [loop.exit, loop.skip]
        body_mask = 0
        for inner in op.regions[-1].ops:
            body_mask |= self.masks.get(inner, 0)
        body = self.rewrite(op.regions[-1].ops, [*loops, loop])
        if loop.skip.needed:
            at = 1 if op.kind == "for" else 0  # behind `index`
            body[at:at] = [Op("set", operands=(loop.skip.slot, self.false))]
            out.append(loop.skip.slot)
        attrs = op.attrs
        if body_mask & (BREAK | RETURN):
            loop.exit.needed = True
            out += self.reset(loop.exit)
            attrs = {**attrs, "exit": loop.exit.slot}
        regions = (*op.regions[:-1], Region(body))
        out.append(Op(op.kind, op.type, op.operands, attrs, regions, op.loc))

    def guard(self, mask: int, rest: list[Op], out: list[Op], loops: list[_Loop], op: Op) -> None:
        """`if not flag: rest`."""
        if not loops:
            flag = self.returned
        else:
            flag = loops[-1].skip if mask & CONTINUE else loops[-1].exit
        flag.needed = True
        left = Op("get", bool_, (flag.slot,))
        go_on = Op("not", bool_, (left,))
        regions = Region(self.rewrite(rest, loops)), Region()
        out += [left, go_on, Op("if", operands=(go_on,), regions=regions, loc=op.loc)]


def _always_leaves(ops: list[Op]) -> bool:
    """Whether the end of `ops` is never reached (a loop that never ends is not looked for)."""
    for op in ops:
        if op.kind in _MASK:
            return True
        if op.kind == "if" and all(_always_leaves(r.ops) for r in op.regions):
            return True
    return False
