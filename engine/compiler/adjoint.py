"""Reverse mode: from the flow form of a kernel to the MIR of its backward kernel (one thread of it undoes one thread).

Each block becomes two lists: values of the forward pass that are needed again, then the ops in reverse order, each with
its rule. A needed value is

    recomputed   when it is a pure function of values that are there, a load from an array that this kernel does not
                 write, or the result of an `if` made of such ops;
    saved        otherwise: a value carried by a loop, loaded from an array that the kernel writes, or the old value of
                 an atomic. It goes into the frame of the innermost loop's iteration, or of the whole thread. A tile may
                 go there as a whole (`adjoint_kept`).

Only what a rule asks for becomes needed ("to be recorded": Hascoët, Naumann & Pascual, "To be recorded" analysis in
reverse-mode automatic differentiation, FGCS 21(8), 2005), so `s += f(j)` saves nothing. Where frames lie:
`adjoint_frames`; loops on the way back: `adjoint_loops`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from engine.compiler.adjoint_activity import Activity, ArrayKey, accesses, array_key, bases, roots
from engine.compiler.adjoint_flow import Block, Flow, blocks_of, is_float, results_of
from engine.compiler.adjoint_frames import Frames
from engine.compiler.adjoint_kept import find_kept
from engine.compiler.adjoint_loops import Loops
from engine.compiler.adjoint_replay import Replay
from engine.compiler.adjoint_rules import RULES
from engine.compiler.adjoint_step import ReverseStep, find_masked
from engine.compiler.adjoint_sums import Sum
from engine.compiler.diagnostics import error_at
from engine.compiler.inline import inline
from engine.compiler.ir import Function, Location, Op, Region, clone_op, scalar_type
from engine.compiler.ops import ELEMENTWISE
from engine.compiler.scalarize import scalarize
from engine.compiler.simplify import simplify
from engine.compiler.types import LocalArray, Pointer, Table, Type, bool_, int32, int64, leaves, pointer, void
from engine.errors import CompileError, InternalError

_PURE = frozenset(
    {*ELEMENTWISE, "cast", "bitcast", "select", "bits", "tid", "address", "pointer_to_int", "int_to_pointer"}
)


@dataclass(frozen=True)
class Demand:
    """What the gradient of a kernel is wanted for."""

    active: frozenset[ArrayKey]  # arrays that have a gradient
    saved: frozenset[ArrayKey]  # arrays whose elements this launch overwrites: what is read from them is saved
    shared: frozenset[ArrayKey] = frozenset()  # active arrays whose memory overlaps another's
    alone: bool = False  # the backward pass runs on one thread: no sum needs to be atomic


class Reverse:
    """Makes the backward kernel of one function."""

    def __init__(self, flow: Flow, demand: Demand, count: int, fma: bool, inputs: frozenset[Op] = frozenset()):
        """`inputs` are scalar parameters to differentiate by, for a function that ends in a `yield` of its results."""
        self.flow, self.demand, self.fma = flow, demand, fma
        self.shift = count  # parameter i's gradient is parameter i + shift; then come the arena and its offsets
        self.activity = Activity(flow, demand.active, inputs)
        self.final: dict[Op, Op] = {}  # input → its adjoint, after `function_body`
        self.heads: dict[Block, list[Op]] = {b: [] for b in flow.blocks()}
        self.pre: dict[Block, list[Op]] = {b: [] for b in flow.blocks()}
        self.rev: dict[Block, list[Op]] = {b: [] for b in flow.blocks()}
        self.block = flow.root
        self.loc: Location | None = None
        self.slots: list[Op] = []
        self.consts: dict[tuple[str, str], Op] = {}
        self.params: dict[tuple[int, Any], Op] = {(p.attrs["index"], p.attrs["path"]): p for p in flow.fn.params}
        self.known: dict[Op, Op] = {p: p for p in flow.fn.params}  # value of the forward pass → what stands for it
        self.adjoints: dict[Op, Op] = {}
        self.escapes: dict[Op, Op] = {}  # active value used in an inner block → slot of its adjoint
        self.frames = Frames(flow.root)
        self.accesses: list[Op] = []  # all ops on gradient arrays
        self.written_by_users: set[Op] = set()  # those of them that stand in gradient functions
        self.local_adjoints: dict[Op, Op] = {}
        self.tape: Op | None = None  # slot: top of this thread's stack
        self.live: dict[Block, bool] = {}
        self.masked = find_masked(flow)
        self.kept = find_kept(flow)
        self.loops = Loops(self)
        self.taken: dict[Op, tuple[Op, Op, Op, Block]] = {}  # array → index, adjoint, op that set it to zero, where

    # the function

    def run(self) -> Function:
        root = self.flow.root
        self.find_escapes()
        self.frames.new(root)
        self.reverse(root)
        body = self.make_private(self.code(root))
        self.frames.close()
        fn = self.flow.fn
        ops = [*self.consts.values(), *self.frames.constants(), *self.slots, *body]
        return Function(f"{fn.name}_adjoint", list(self.params.values()), Region(ops), void, fn.file, fn.line, True)

    def function_body(self) -> list[Op]:
        """All ops for a function of values; the adjoints of its inputs are then in `final`."""
        root = self.flow.root
        self.find_escapes()
        self.frames.new(root)
        self.reverse(root)
        for p in self.flow.fn.params:
            g = self.adjoint(p) if p in self.activity else None
            if g is not None:
                self.final[p] = g
        return [*self.slots, *self.consts.values(), *self.code(root)]

    def results(self, op: Op) -> None:
        """The end of a function: the adjoint of each result is 1."""
        for v in op.operands:
            if v in self.activity:
                self.add(v, self.const(v.type, 1.0))

    def code(self, block: Block) -> list[Op]:
        """The complete list of a block, with its frame popped first."""
        frame = self.frames.get(block)
        pop: list[Op] = []
        if block is self.flow.root and any(f.saved for f in self.frames.values()):
            pop = self.start_of_stack()
        if frame in self.loops.bases:
            pop = self.loops.bases[frame]
        elif frame is not None and frame.saved:
            top = Op("get", int64, (self.top(),))
            frame.base.operands = (top, frame.size_op)
            pop += [top, frame.base, Op("set", void, (self.top(), frame.base))]
        return [*self.heads[block], *pop, *self.pre[block], *self.rev[block]]

    def top(self) -> Op:
        if self.tape is None:
            self.tape = self.new_slot(int64, "tape")
        return self.tape

    def start_of_stack(self) -> list[Op]:
        """Sets the top to the end of this thread's bytes."""
        tid = Op("tid", int32, (), {"axis": 0, "ndim": 1})
        wide = Op("cast", int64, (tid,))
        following = Op("add", int64, (wide, self.const(int64, 1)))
        ops = [tid, wide, following]
        if self.frames.counts:
            offsets = self.param(2 * self.shift + 1, ("data",), pointer, "offsets")
            attrs = {"ndim": 1, "offset": 0, "array": "offsets", "layout": "aos"}
            end = Op("load", int64, (offsets, following, self.const(int64, 8)), attrs)
        else:
            end = Op("mul", int64, (following, self.frames.stride))
        return [*ops, end, Op("set", void, (self.top(), end))]

    # building blocks

    def const(self, t: Type, value: Any) -> Op:
        key = (repr(t), repr(value))
        if key not in self.consts:
            self.consts[key] = Op("const", t, (), {"value": value})
        return self.consts[key]

    def zero(self, t: Type) -> Op:
        return self.const(t, 0.0 if is_float(t) else 0)

    def param(self, index: int, path: tuple[Any, ...], t: Type, name: str) -> Op:
        op = self.params.get((index, path))
        if op is None:
            op = self.params[index, path] = Op("param", t, (), {"index": index, "path": path, "name": name})
        return op

    def new_slot(self, t: Type, name: str) -> Op:
        slot = Op("slot", t, (), {"name": name})
        self.slots.append(slot)
        return slot

    def emit(self, kind: str, t: Type, *operands: Op, attrs: dict[str, Any] | None = None) -> Op:
        """A new op at the current point of the way back."""
        op = Op(kind, t, operands, attrs, (), self.loc)
        self.rev[self.block].append(op)
        return op

    def error(self, op: Op, message: str) -> CompileError:
        return error_at(self.flow.fn, op.loc, message)

    # values of the forward pass

    def value(self, v: Op) -> Op:
        """What stands for `v` on the way back; makes it available when it is not."""
        known = self.known.get(v)
        if known is None:
            known = self.known[v] = self.restore(v)
        return known

    def restore(self, v: Op) -> Op:
        kind, home = v.kind, self.flow.home[v]
        if kind == "const":
            return self.const(v.type, v.attrs["value"])
        if kind == "result" and (self.replayable(v, home, set()) and v.attrs["of"].kind != "loop"):
            return self.replay(v, home)
        if kind in _PURE or (kind == "load" and not self.is_saved_load(v)):
            operands = tuple([self.value(x) for x in v.operands])
            op = Op(kind, v.type, operands, v.attrs, (), v.loc)
        elif kind == "local_load" and v.operands[0].attrs.get("filled") and self.flow.home[v.operands[0]] is home:
            op = Op(kind, v.type, (self.filled(v.operands[0], home), self.value(v.operands[1])), v.attrs, (), v.loc)
        elif v in self.kept:
            op = self.element_of_saved(v)
        else:
            return self.saved(v, home)
        self.pre[home].append(op)
        return op

    def is_saved_load(self, v: Op) -> bool:
        """Whether what it read may have been overwritten since, in memory or in a local array."""
        return any(b.kind == "local" or array_key(b) in self.demand.saved
                   for b in bases(v.operands[0]) if b.kind in ("param", "local"))  # fmt: skip

    def saved(self, v: Op, home: Block) -> Op:
        """Reads `v` from the frame that it was saved in."""
        if isinstance(v.type, Pointer):
            raise self.error(v, "the gradient needs to know which array a variable held in each iteration: "
                                "use a flag instead of a variable that holds an array")  # fmt: skip
        frame = self.frames[home.frame]
        arena = self.param(2 * self.shift, ("data",), pointer, "arena")
        attrs = {"ndim": 1, "offset": frame.place(v), "array": "arena", "layout": "aos"}
        op = Op("load", v.type, (arena, frame.base, self.const(int64, 1)), attrs, (), v.loc)
        self.pre[home].append(op)
        return op

    def element_of_saved(self, v: Op) -> Op:
        """Reads an element of a tile from the frame that has all of them."""
        tile, index = v.operands
        frame = self.frames[self.flow.home[tile].frame]
        arena = self.param(2 * self.shift, ("data",), pointer, "arena")
        attrs = {"ndim": 2, "offset": frame.place(tile), "array": "arena", "layout": "aos"}
        steps = (self.const(int64, 1), self.const(int64, scalar_type(tile).size))
        wide = Op("cast", int64, (self.value(index),), None, (), v.loc)
        self.pre[self.flow.home[v]].append(wide)
        return Op("load", v.type, (arena, frame.base, wide, *steps), attrs, (), v.loc)

    def filled(self, local: Op, home: Block) -> Op:
        """A local array that only spreads components out (see `scalarize`): filled again."""
        if local not in self.known:
            copy = self.known[local] = Op("local", local.type, (), local.attrs, (), local.loc)
            stores = [op for op in home.ops if op.kind == "local_store" and op.operands[0] is local]
            values = [(self.value(op.operands[1]), self.value(op.operands[2])) for op in stores]
            self.pre[home].append(copy)
            self.pre[home] += [Op("local_store", void, (copy, k, v)) for k, v in values]
        return self.known[local]

    def replayable(self, v: Op, block: Block, seen: set[Op]) -> bool:
        """Whether `v`, and what it needs inside ifs, can be computed again without the tape; `block` is around them."""
        home = self.flow.home.get(v)
        if v.kind in ("const", "param") or v in seen or home is None or not home.within(block):
            return True
        if home is block and v.kind != "result":
            return True
        seen.add(v)
        if v.kind == "result":
            owner, k = v.attrs["of"], v.attrs["index"]
            if home is block and seen != {v}:
                return True  # restored on its own
            if owner.kind == "loop":
                return False
            inner = [b.yields[k] for b in blocks_of(owner)]
            return all(self.replayable(x, block, seen) for x in (*inner, *self.condition(owner)))
        if v.kind in _PURE or (v.kind == "load" and not self.is_saved_load(v)):
            return all(self.replayable(x, block, seen) for x in v.operands)
        return False

    @staticmethod
    def condition(owner: Op) -> tuple[Op, ...]:
        return owner.operands if owner.kind == "if" else ()

    def replay(self, v: Op, home: Block) -> Op:
        """Runs an `if` again, as far as the result `v` needs it."""
        out: list[Op] = []
        result = Replay(self, home).result(v, out)
        self.pre[home] += out
        return result

    # adjoints

    def find_escapes(self) -> None:
        """Active values used in a block inside their own: adjoints from there are summed in a slot."""
        home = self.flow.home
        for block in self.flow.blocks():
            users = [*block.yields, *(v for op in block.ops for v in op.operands)]
            for op in block.ops:
                users += [v for b in blocks_of(op) for v in b.inits]
            for v in users:
                if v in self.activity and v not in self.escapes and home[v] is not block and is_float(v.type):
                    slot = self.escapes[v] = self.new_slot(v.type, "adjoint")
                    self.heads[home[v]].append(Op("set", void, (slot, self.zero(v.type))))

    def adjoint(self, v: Op) -> Op | None:
        """The adjoint of `v` so far, None where nothing has come to it."""
        slot = self.escapes.get(v)
        return self.adjoints.get(v) if slot is None else self.emit("get", v.type, slot)

    def add(self, v: Op, value: Op) -> None:
        """adjoint of v += value"""
        if v in self.activity:
            before = self.adjoint(v)
            self.put(v, value if before is None else self.emit("add", v.type, before, value))
            if before is not None and self.is_from_outside(v):
                self.loops.sums.append(Sum(self.escapes[v], None, value, before, self.rev[self.block][-1], None))

    def is_from_outside(self, v: Op) -> bool:
        """Whether a value is one that all rounds of the current nest have in common."""
        return self.loops.nest is not None and not self.flow.home[v].within(self.loops.nest)

    def add_product(self, v: Op, a: Op, b: Op) -> None:
        """adjoint of v += a * b"""
        if v in self.activity:
            before = self.adjoint(v)
            contracts = self.fma and v.type.bits != 16 and not self.is_from_outside(v)  # type: ignore[attr-defined]
            if before is not None and contracts:
                self.put(v, self.emit("fma", v.type, a, b, before))
            else:
                self.add(v, self.emit("mul", v.type, a, b))

    def put(self, v: Op, value: Op) -> None:
        slot = self.escapes.get(v)
        if slot is None:
            self.adjoints[v] = value
        else:
            self.emit("set", void, slot, value)

    # blocks

    def reverse(self, block: Block) -> None:
        """Fills `rev` of a block, whose yields already have their adjoints."""
        outer, self.block = self.block, block
        for op in reversed(block.ops):
            self.loc = op.loc
            handler = HANDLERS.get(op.kind)
            if handler is not None:
                handler(self, op)
            elif op.kind not in PASSIVE:
                raise InternalError(f"adjoint has no rule for `{op.kind}`")
        self.block = outer

    def is_live(self, block: Block) -> bool:
        """Whether anything in a block passes a gradient on."""
        known = self.live.get(block)
        if known is None:
            known = self.live[block] = any(
                op in self.activity or self.touches(op) or any(map(self.is_live, blocks_of(op))) for op in block.ops
            ) or any(v in self.activity for v in (*block.yields, *block.params))
        return known

    def touches(self, op: Op) -> bool:
        if op.kind == "custom":
            return any(isinstance(v.type, Pointer) and self.activity.is_active_pointer(v) for v in op.operands)
        if op.kind in ("store", "atomic"):
            return is_float(op.operands[-1].type) and self.activity.leads_into(op.operands[0], self.activity.useful)
        return op.kind == "local_store" and op.operands[0] in self.activity

    def elementwise(self, op: Op) -> None:
        if op in self.activity and (g := self.adjoint(op)) is not None:
            RULES[op.kind](ReverseStep(self, op, g))

    def cast(self, op: Op) -> None:
        if op in self.activity and (g := self.adjoint(op)) is not None:
            source = op.operands[0]
            if source in self.activity:
                self.add(source, g if source.type == op.type else self.emit("cast", source.type, g))

    def bitcast(self, op: Op) -> None:
        if op in self.activity and op in self.activity.opaque:
            raise self.error(op, "the gradient cannot follow a float through its bits: give the function a gradient of "
                                 "its own with @func_grad")  # fmt: skip
        self.cast(op)

    def select(self, op: Op) -> None:
        if op in self.activity and (g := self.adjoint(op)) is not None:
            c, a, b = op.operands
            zero = self.zero(op.type)
            if a in self.activity:
                self.add(a, self.emit("select", op.type, self.value(c), g, zero))
            if b in self.activity:
                self.add(b, self.emit("select", op.type, self.value(c), zero, g))

    def branch(self, op: Op) -> None:
        blocks = blocks_of(op)
        if not any(map(self.is_live, blocks)):
            return
        incoming = [(k, self.adjoint(r)) for k, r in enumerate(results_of(op)) if r in self.activity]
        regions = []
        for block in blocks:
            outer, self.block = self.block, block
            for k, g in incoming:
                if g is not None:
                    self.add(block.yields[k], g)
            self.block = outer
            self.reverse(block)
            regions.append(Region(self.code(block)))
        if any(region.ops for region in regions):
            condition = self.value(op.operands[0])
            self.rev[self.block].append(Op("if", void, (condition,), None, tuple(regions), op.loc))

    def loop(self, op: Op) -> None:
        self.loops.undo(op)

    # memory

    def shadow(self, p: Op) -> Op | None:
        """Where the gradient of what `p` points to lies; None where there is none."""
        found = {
            b in self.activity if b.kind == "local" else array_key(b) in self.demand.active
            for b in bases(p) if b.kind in ("param", "local")
        }  # fmt: skip
        if found == {False} or not found:
            return None
        if len(found) == 2:
            raise self.error(p, "a variable holds now an array with a gradient, now one without")
        match p.kind:
            case "param":
                name = f"{p.attrs.get('name', '')}.grad"
                return self.param(p.attrs["index"] + self.shift, p.attrs["path"], pointer, name)
            case "local_pointer":
                return self.emit("local_pointer", pointer, self.local_adjoint(p.operands[0]))  # type: ignore[arg-type]
            case "address":
                return self.emit("address", pointer, self.shadow(p.operands[0]), self.value(p.operands[1]))  # type: ignore[arg-type]
            case "select":
                a, b = self.shadow(p.operands[1]), self.shadow(p.operands[2])
                return self.emit("select", pointer, self.value(p.operands[0]), a, b)  # type: ignore[arg-type]
        raise self.error(p, "the gradient cannot follow a variable that holds different arrays: use a flag instead")

    def grad_access(self, kind: str, op: Op, *values: Op) -> Op | None:
        """An access (atomic: add) to the gradient of the element that `op` touches, or None where there is none."""
        place = self.shadow(op.operands[0])
        if place is None:
            return None
        n = op.attrs["ndim"]
        operands = [self.value(v) for v in op.operands[1 : 1 + 2 * n]]
        t = void if kind == "store" else op.operands[-1].type if op.kind == "store" else op.type
        attrs = {**op.attrs, "array": f"{op.attrs.get('array', '')}.grad", "op": "add"}
        if kind != "atomic":
            del attrs["op"]
        access = self.emit(kind, t, place, *operands, *values, attrs=attrs)
        self.accesses.append(access)
        return access

    def load(self, op: Op) -> None:
        if op in self.activity and (g := self.adjoint(op)) is not None:
            self.scatter(op, g)

    def scatter(self, op: Op, g: Op) -> None:
        self.grad_access("atomic", op, g)

    def store(self, op: Op) -> None:
        v = op.operands[-1]
        if is_float(v.type):
            if v in self.activity.varied and not any(b.kind in ("param", "local") for b in bases(op.operands[0])):
                raise self.error(op, "gradients do not go into an array that is itself stored in an array of structs: "
                                     "pass it to the kernel as an argument")  # fmt: skip
            g = self.grad_access("load", op)
            if g is not None:
                self.grad_access("store", op, self.zero(v.type))
                self.add(v, g)

    def atomic(self, op: Op) -> None:
        v, name = op.operands[-1], op.attrs["op"]
        if not is_float(v.type) or self.shadow(op.operands[0]) is None:
            return
        old = self.adjoint(op) if op in self.activity else None
        if name in ("add", "sub"):
            if v in self.activity:
                g = self.grad_access("load", op)
                self.add(v, g if name == "add" else self.emit("neg", v.type, g))  # type: ignore[arg-type]
            if old is not None:
                self.scatter(op, old)
        elif name in ("min", "max") and old is None:
            self.extremum(op, v, name)
        else:
            raise self.error(op, f"atomic_{name} on {v.type!r} whose result is used has no gradient"
                             if name in ("min", "max") else f"atomic_{name} on {v.type!r} has no gradient")  # fmt: skip

    def extremum(self, op: Op, v: Op, name: str) -> None:
        """The one thread that brought the final value takes the gradient, and leaves none to what was there before."""
        n, mine = op.attrs["ndim"], {array_key(p) for p in roots(op.operands[0])}
        for other, keys in accesses(self.flow, ("store", "atomic")):
            if keys & mine and other.attrs.get("op") != name:
                raise self.error(op, f"the gradient of atomic_{name} needs every write to the array to be one")
        place = tuple([self.value(x) for x in op.operands[: 1 + 2 * n]])
        final = self.emit("load", v.type, *place, attrs={k: a for k, a in op.attrs.items() if k != "op"})
        won = self.emit("eq", bool_, self.value(v), final)
        changed = self.emit("lt" if name == "min" else "gt", bool_, self.value(v), self.value(op))
        both = self.emit("and", bool_, won, changed)
        slot = self.new_slot(v.type, "taken")
        self.emit("set", void, slot, self.zero(v.type))
        mark = len(self.rev[self.block])
        g = self.grad_access("load", op)
        self.grad_access("store", op, self.zero(v.type))
        inner = [*self.rev[self.block][mark:], Op("set", void, (slot, g))]  # type: ignore[arg-type]
        del self.rev[self.block][mark:]
        self.rev[self.block].append(Op("if", void, (both,), None, (Region(inner), Region([])), op.loc))
        self.add(v, self.emit("get", v.type, slot))

    def make_private(self, body: list[Op]) -> list[Op]:
        """Sums by atomics become plain ones where each thread has elements of its own: its index is in every access."""
        groups: dict[ArrayKey, list[Op]] = {}
        for op in self.accesses:
            for p in roots(op.operands[0]):
                groups.setdefault(array_key(p), []).append(op)
        private: set[Op] = set()
        for key, ops in groups.items():
            places = {_thread_place(op) for op in ops}
            shift = (key[0] - self.shift, key[1])
            mine = len(places) == 1 and None not in places and shift not in self.demand.shared
            if mine or self.demand.alone:
                own = (op for op in ops if op.kind == "atomic" and op not in self.loops.contended)
                private.update(op for op in own if op not in self.written_by_users)
        return [new for op in body for new in self.made_private(op, private)] if private else body

    def made_private(self, op: Op, private: set[Op]) -> list[Op]:
        if op.regions:
            for region in op.regions:
                region.ops = [new for inner in region.ops for new in self.made_private(inner, private)]
        if op not in private:
            return [op]
        *place, g = op.operands
        attrs = {k: v for k, v in op.attrs.items() if k != "op"}
        before = Op("load", op.type, tuple(place), attrs, (), op.loc)
        total = Op("add", op.type, (before, g), None, (), op.loc)
        return [before, total, Op("store", void, (*place, total), attrs, (), op.loc)]

    # functions with a gradient of their own

    def custom(self, op: Op) -> None:
        """Puts the gradient function in, with the arguments, the adjoints of the results and the gradient arrays."""
        outputs = op.attrs["outputs"]
        found = [self.adjoint(v) if v is not None and v in self.activity else None for v in outputs]
        if not self.touches(op) and not any(found):
            return
        fn = gradient_mir(op.attrs["gradient"], self.fma)
        arguments = dict(zip(op.attrs["args"], op.operands, strict=True))
        count = len(op.attrs["gradient"].function.params) - len(op.attrs["gradient"].results)
        incoming = iter([g if g is not None else self.zero(v.type) for v, g in self.results_with_adjoints(op, found)])
        adjoints = {}  # parameter and path of each adjoint of a result
        for p in op.attrs["gradient"].function.params[count:]:
            adjoints.update({(p.attrs["index"], path): next(incoming) for path, _ in leaves(p.type)})
        values: dict[Op, Op] = {}
        for p in fn.params:
            key = (p.attrs["index"], p.attrs["path"])
            values[p] = adjoints[key] if key in adjoints else self.value(arguments[key])
        pointers = {
            values[p]: arguments[p.attrs["index"], p.attrs["path"]] for p in fn.params if isinstance(p.type, Pointer)
        }
        out = self.rev[self.block]
        *body, end = fn.body.ops
        for inner in body:
            self.place_custom(inner, values, pointers, out)
        none = self.all_zero([g for v, g in zip(outputs, found, strict=True) if g is not None and v in self.masked])
        at = dict(zip(_yielded(op.attrs["gradient"].function, count), end.operands, strict=True))
        for key, v in arguments.items():
            if is_float(v.type) and key in at:
                g = values.get(at[key], at[key])
                self.add(v, g if none is None else self.emit("select", v.type, none, self.zero(v.type), g))

    def all_zero(self, found: list[Op]) -> Op | None:
        """Whether all these adjoints are 0, None where there are none."""
        tests = [self.emit("eq", bool_, g, self.zero(g.type)) for g in found]
        return functools.reduce(lambda a, b: self.emit("and", bool_, a, b), tests) if tests else None

    def results_with_adjoints(self, op: Op, found: list[Op | None]) -> Iterator[tuple[Any, Op | None]]:
        """(something with the type of the result leaf, its adjoint) for all leaves of the results."""
        types_of = [t for r in op.attrs["gradient"].results for _, t in leaves(r)]
        return zip([Op("none", t) for t in types_of], found, strict=True)

    def place_custom(self, op: Op, values: dict[Op, Op], pointers: dict[Op, Op], out: list[Op]) -> None:
        """Copies one op of a gradient function; a shadow becomes the gradient array."""
        if op.kind == "shadow":
            place = self.shadow(pointers[values.get(op.operands[0], op.operands[0])])
            if place is None:
                raise self.error(op, "the gradient function uses the gradient of an array that has none: "
                                     "give the array requires_grad=True")  # fmt: skip
            values[op] = place
            return
        copy = clone_op(op, values)
        out.append(copy)
        for inner in Region([copy]).walk():
            if inner.kind in ("load", "store", "atomic") and any(
                p.attrs["index"] >= self.shift for p in roots(inner.operands[0])
            ):
                self.accesses.append(inner)
                self.written_by_users.add(inner)

    # local arrays

    def local_adjoint(self, local: Op) -> Op | None:
        """The adjoints of a local array's elements; zero where the array begins."""
        if local not in self.activity:
            return None
        if local not in self.local_adjoints:
            t: LocalArray = local.type  # type: ignore[assignment]
            attrs = {k: True for k in ("exposed", "tile") if local.attrs.get(k)}
            made = self.local_adjoints[local] = Op("local", t, (), attrs, (), local.loc)
            self.heads[self.flow.home[local]].append(made)
        return self.local_adjoints[local]

    def local_load(self, op: Op) -> None:
        if op not in self.activity:
            return
        array, index = self.local_adjoint(op.operands[0]), self.value(op.operands[1])
        assert array is not None
        taken = self.taken.pop(array, None)
        g = self.adjoint(op)
        if g is None:
            return
        if taken is not None and taken[0] is index and taken[1] is g and taken[3] is self.block:
            self.rev[self.block].remove(taken[2])  # t[i] = t[i] + x: what was taken comes back as it is
            return
        before = self.emit("local_load", op.type, array, index)
        end = self.emit("local_store", void, array, index, self.emit("add", op.type, before, g))
        if self.loops.nest is not None:
            self.loops.sums.append(Sum(array, index, g, before, end, op))

    def local_store(self, op: Op) -> None:
        array = self.local_adjoint(op.operands[0])
        if array is not None:
            index, v = self.value(op.operands[1]), op.operands[2]
            g = self.emit("local_load", v.type, array, index)
            zero = self.emit("local_store", void, array, index, self.zero(v.type))
            if not array.attrs.get("exposed"):
                self.taken[array] = (index, g, zero, self.block)
            self.add(v, g)


def gradient_mir(gradient: Any, fma: bool) -> Function:
    """The MIR of a custom gradient: parameters by argument and path, then a `yield` of the arguments' adjoints."""
    return simplify(scalarize(inline(gradient.function, customs=False)), fma)


def _thread_place(op: Op) -> tuple[Any, ...] | None:
    """Where this thread's index stands among the indices of an access that no other thread can make; else None."""
    if op.operands[0].kind != "param":
        return None
    found = [
        (v.attrs["axis"], v.attrs["ndim"]) if v.kind == "tid" else None for v in op.operands[1 : 1 + op.attrs["ndim"]]
    ]
    axes = {a for a in found if a is not None}
    whole = any(axes >= {(axis, ndim) for axis in range(ndim)} for _, ndim in axes)
    return tuple(found) if whole else None


def _yielded(function: Function, count: int) -> list[tuple[int, Any]]:
    """Parameter and path of each operand of the yield, leaf by leaf."""
    return [(p.attrs["index"], path) for p in function.params[:count] if not isinstance(p.type, Table | LocalArray)
            for path, _ in leaves(p.type)]  # fmt: skip


_R = Reverse
HANDLERS: dict[str, Callable[[Reverse, Op], None]] = {
    **dict.fromkeys(RULES, _R.elementwise), "cast": _R.cast, "bitcast": _R.bitcast, "select": _R.select,
    "if": _R.branch, "loop": _R.loop, "load": _R.load, "store": _R.store, "atomic": _R.atomic,
    "local_load": _R.local_load,
    "local_store": _R.local_store, "custom": _R.custom, "yield": _R.results,
}  # fmt: skip
# ops that pass no gradient on
PASSIVE = frozenset(
    {"const", "tid", "bits", "address", "index", "local", "print", "fault", "prefetch", "local_pointer",
     "pointer_to_int", "int_to_pointer"}
)
