"""Emits kernels whose threads work together for a CPU: block by block, the threads of a block in step (MIR to LLVM).

The code is cut where threads wait for each other. What stands between two cuts runs for one thread after the other;
what a thread needs behind a cut lies in memory of the block, one place for each thread:

    a = x[i]                        for t in threads: a[t] = x[i]
    b = shuffle_down(a, 1)    →     for t in threads: y[i] = a[t + 1 if there is one else t]
    y[i] = b

Ifs and loops around a cut are run by the whole block with a mask of the threads that take part, as long as there is
one, so that threads may leave early. A range of the launch runs the blocks whose first thread lies in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from engine.compiler.emit_ops import LLVM_TYPES
from engine.compiler.emit_ptx import check_memory, padded
from engine.compiler.emit_thread import STRUCTURE, WARP, WARP_BITS, Thread, check_features
from engine.compiler.ir import Function, Op, Region
from engine.compiler.ops import LAUNCH, needs_block
from engine.compiler.target_ptx import MAX_THREADS
from engine.compiler.types import LocalArray, Pointer, Scalar

SIZE_AT, COUNT_AT = -24, -16  # of the launch block's header, from the parameters
CUTS = frozenset({"barrier", "shuffle", "vote"})
NOWHERE = -1  # the "segment" of what the block does as a whole
_EVERYWHERE = frozenset({"const", "param", "slot", "local"})  # values that have a name in all segments


@dataclass
class Segment:
    """Ops between two cuts: a thread runs them without a break."""

    number: int
    repeats: bool  # whether it stands in a loop that the block runs
    ops: list[Op] = field(default_factory=list)


@dataclass
class Joint:
    """An op that the block runs as a whole: a vote, or an if or a loop around a cut, with its regions."""

    op: Op
    parts: list[list[Segment | Joint]] = field(default_factory=list)


Part = Segment | Joint


def emit_blocks(fn: Function, symbol: str) -> str:
    """The LLVM module, as text, with the range function named `symbol`.

    Raises `CompileError` for more shared or local memory than a GPU has for a block, so that what runs here runs there.
    """
    check_features(fn)
    check_memory(fn)
    return Block(fn).module(symbol)


def works_in_blocks(fn: Function) -> bool:
    """Whether threads of a MIR kernel need the others of their block."""
    return any(needs_block(op) for op in fn.body.walk())


class _Plan:
    """Where a kernel is cut, and what lies in the block's memory: values and variables that cross a cut."""

    def __init__(self, fn: Function):
        self.count = 0
        self.home: dict[Op, int] = {}  # value → its segment
        self.joints: list[Joint] = []
        self.segments: list[Segment] = []
        self.body = self.cut(fn.body.ops, False)
        self.imports: dict[int, dict[Op, None]] = {s.number: {} for s in self.segments}
        self.stored: dict[Op, None] = {}  # values, slots and local arrays with a place for each thread
        self.look()

    def cut(self, ops: list[Op], repeats: bool) -> list[Part]:
        parts: list[Part] = []
        current = self.segment(repeats)

        def close() -> None:
            nonlocal current
            if current.ops:
                parts.append(current)
                current = self.segment(repeats)

        for op in ops:
            if op.kind in ("shuffle", "vote") and self.home.get(op.operands[0]) == current.number:
                close()  # all threads have to have the value before one of them looks at it
            if op.kind == "vote" or _crosses(op):
                close()
                loops = op.kind in ("for", "while")
                self.joints.append(joint := Joint(op))
                if op.kind == "for":
                    self.home[op.regions[0].ops[0]] = NOWHERE
                regions = [r.ops[1:] if op.kind == "for" else r.ops for r in op.regions]
                joint.parts = [self.cut(row, repeats or loops) for row in regions]
                parts.append(joint)
            elif op.kind == "barrier":
                close()
                continue
            if op.kind == "vote" or not _crosses(op):
                current.ops.append(op)
                for inner in _walk(op):
                    self.home[inner] = current.number
        close()
        return parts

    def segment(self, repeats: bool) -> Segment:
        self.count += 1
        self.segments.append(made := Segment(self.count, repeats))
        return made

    def look(self) -> None:
        """Finds what crosses a cut."""
        users: dict[Op, set[int]] = {}  # slots and local arrays → segments that touch them
        repeats = {s.number: s.repeats for s in self.segments}
        for segment in self.segments:
            for op in segment.ops:
                for inner in _walk(op):
                    self.used(inner, segment.number, users)
        for joint in self.joints:
            self.used(joint.op, NOWHERE, users)
            if joint.op.kind == "while":
                self.used(joint.op.regions[0].ops[-1], NOWHERE, users)
        for op, where in users.items():
            if len(where) > 1 or any(n == NOWHERE or repeats[n] for n in where):
                self.stored[op] = None

    def used(self, op: Op, number: int, users: dict[Op, set[int]]) -> None:
        places = [op] if op.kind == "local" else []  # which is zeroed there
        if op.attrs.get("exit") is not None:
            places.append(op.attrs["exit"])
        for k, v in enumerate(op.operands):
            if v.kind in ("slot", "local"):
                places.append(v)
            elif v.kind not in _EVERYWHERE and self.home.get(v) != number:
                self.stored[v] = None
                if number != NOWHERE:
                    self.imports[number][v] = None
            if op.kind == "shuffle" and k == 0 and v.kind not in _EVERYWHERE:
                self.stored[v] = None
        for place in places:
            if not place.attrs.get("shared"):
                users.setdefault(place, set()).add(number)


def _crosses(op: Op) -> bool:
    """Whether it has regions with a cut in them."""
    return any(inner.kind in CUTS for region in op.regions for inner in region.walk())


def _walk(op: Op) -> Iterator[Op]:
    yield op
    for region in op.regions:
        yield from region.walk()


class Block(Thread):
    """The emitter: the thread shape's, with loops over the threads of a block around what stands between cuts."""

    def __init__(self, fn: Function):
        super().__init__(fn)
        self.plan = _Plan(fn)
        self.sizes: dict[Any, int] = {id(joint): 1 for joint in self.plan.joints}  # bytes of a thread; 1: a mask
        self.sizes |= {op: _bytes(op) for op in self.plan.stored}
        self.homes: dict[Any, str] = {}  # where what is stored begins
        self.ballots: dict[Op, str] = {}
        self.t = ""  # this thread's place in its block

    # the function

    def function(self, symbol: str, linkage: str = "") -> list[str]:
        self.parameters()
        self.alias_scopes()
        self.memory()
        for op in self.fn.body.walk():
            if op.kind == "const":
                self.const(op)
        self.parts(self.plan.body, "")
        head = [f"define {linkage}void @{symbol}(ptr noalias readonly %params, i64 %begin, i64 %end) nounwind {{",
                "entry:"]  # fmt: skip
        loop = [
            "  br label %next", "next:", "  %block = phi i64 [ %first, %entry ], [ %following, %done ]",
            "  %base = mul i64 %block, %threads", "  %some = icmp slt i64 %base, %end",
            "  br i1 %some, label %run, label %leave", "run:", "  %left = sub i64 %size, %base",
            "  %n = call i64 @llvm.smin.i64(i64 %left, i64 %threads)",
        ]  # fmt: skip
        tail = ["  br label %done", "done:", "  %following = add i64 %block, 1", "  br label %next", "leave:",
                *(f"  call void @free(ptr {home})" for home in self.homes.values()),
                *(["  call i32 @fflush(ptr null)"] if "fflush" in self.declarations else []),
                "  ret void", "}"]  # fmt: skip
        return [*head, *self.entry, *loop, *self.lines, *tail]

    def memory(self) -> None:
        """The launch's size, the block's, and the memory of a block, which one block after the other uses.

        All that is stored has memory of its own: LLVM then knows that nothing else changes it.
        """
        threads = next(self.names[p] for p in self.fn.params if p.attrs["index"] == LAUNCH)
        for name in ("smin", "smax"):
            self.declarations[f"llvm.{name}.i64"] = f"declare i64 @llvm.{name}.i64(i64, i64)"
        self.declarations["malloc"] = "declare noalias ptr @malloc(i64)"
        self.declarations["free"] = "declare void @free(ptr)"
        self.entry += [
            f"  %size.at = getelementptr i8, ptr %params, i64 {SIZE_AT}", "  %launched = load i64, ptr %size.at",
            f"  %count.at = getelementptr i8, ptr %params, i64 {COUNT_AT}", "  %counter = load ptr, ptr %count.at",
            "  %counted = icmp ne ptr %counter, null", "  %own = alloca i32", "  store i32 2147483647, ptr %own",
            "  %count.from = select i1 %counted, ptr %counter, ptr %own", "  %count.32 = load i32, ptr %count.from",
            "  %count = sext i32 %count.32 to i64",
            "  %fewer = call i64 @llvm.smin.i64(i64 %count, i64 %launched)",
            "  %size = select i1 %counted, i64 %fewer, i64 %launched",
            f"  %threads.wide = sext i32 {threads} to i64",
            "  %threads = call i64 @llvm.smax.i64(i64 %threads.wide, i64 1)",
            "  %threads.less = sub i64 %threads, 1", "  %first.above = add i64 %begin, %threads.less",
            "  %first = sdiv i64 %first.above, %threads",
        ]  # fmt: skip
        for op in self.fn.body.walk():
            if op.kind == "local" and op.attrs.get("shared"):
                self.homes[op] = self.names[op] = self.block_memory(f"add i64 {padded(op)}, 0")
        for key, size in self.sizes.items():
            self.homes[key] = self.block_memory(f"mul i64 %threads, {size}")

    def block_memory(self, size: str) -> str:
        name = self.new_name()
        self.entry += [f"  {name}.size = {size}", f"  {name} = call noalias ptr @malloc(i64 {name}.size)"]
        return name

    def place_of(self, key: Any) -> str:
        """The place of this thread in what is stored for `key`."""
        by = self.t if self.sizes[key] == 1 else self.value(f"mul i64 {self.t}, {self.sizes[key]}")
        return self.value(f"getelementptr inbounds i8, ptr {self.homes[key]}, i64 {by}")

    # parts

    def parts(self, parts: list[Part], mask: Any) -> None:
        for part in parts:
            if isinstance(part, Segment):
                self.each(mask, lambda part=part: self.segment(part))  # type: ignore[misc]
            else:
                _JOINT[part.op.kind](self, part, mask)

    def each(self, mask: Any, emit: Callable[[], None]) -> None:
        """Code for each thread of the block, or for those of a mask."""
        counter = self.alloca("i64")
        head, inside, work, after, end = (self.label(x) for x in ("each", "inside", "work", "after", "end"))
        self.lines.append(f"  store i64 0, ptr {counter}")
        self.jump(head)
        self.start(head)
        self.t = self.value(f"load i64, ptr {counter}")
        self.branch(self.value(f"icmp slt i64 {self.t}, %n"), inside, end)
        self.start(inside)
        if mask:
            self.branch(self.taken(mask), work, after)
            self.start(work)
        emit()
        if mask:
            self.jump(after)
            self.start(after)
        self.lines.append(f"  store i64 {self.value(f'add nuw nsw i64 {self.t}, 1')}, ptr {counter}")
        self.jump(head)
        self.lines[-1] += f", !llvm.loop {self.loop_node(self.once)}"
        self.start(end)

    def taken(self, mask: Any) -> str:
        return self.value(f"icmp ne i8 {self.value(f'load i8, ptr {self.place_of(mask)}')}, 0")

    def segment(self, part: Segment) -> None:
        self.index = self.value(f"add nsw i64 %base, {self.t}")
        self.thread_indices()
        thread = self.value(f"trunc i64 {self.t} to i32")
        self.block_names(thread, self.value("trunc i64 %block to i32"))
        left = self.value(f"sub i64 %n, {self.value(f'and i64 {self.t}, -{WARP}')}")
        lanes = self.intrinsic("llvm.smin.i64", "i64", f"i64 {left}", f"i64 {WARP}")
        self.places["warp_lanes"] = self.value(f"trunc i64 {lanes} to i32")
        for v in self.plan.imports[part.number]:
            self.names[v] = self.recalled(v)
        for op in part.ops:
            self.region(Region([op]))
            if op in self.plan.stored and op.kind not in _EVERYWHERE:
                self.write(self.place_of(op), op.type, self.names[op], "")  # type: ignore[arg-type]

    def recalled(self, v: Op) -> str:
        """A value of this thread, from behind a cut."""
        if v.kind in _EVERYWHERE:
            return self.names[v]
        return self.read(self.place_of(v), v.type, "")  # type: ignore[arg-type]

    # what the block does as a whole

    def narrowed(self, joint: Joint, mask: Any, holds: Callable[[], str]) -> str:
        """Sets the mask of `joint` to the threads of `mask` for which `holds` is true; whether there is one."""
        some = self.alloca("i1")
        self.lines.append(f"  store i1 false, ptr {some}")

        def note() -> None:
            both = holds()
            if mask:
                both = self.value(f"and i1 {both}, {self.taken(mask)}")
            self.lines.append(f"  store i8 {self.value(f'zext i1 {both} to i8')}, ptr {self.place_of(id(joint))}")
            known = self.value(f"load i1, ptr {some}")
            self.lines.append(f"  store i1 {self.value(f'or i1 {known}, {both}')}, ptr {some}")

        self.each("", note)
        return self.value(f"load i1, ptr {some}")

    def joint_if(self, joint: Joint, mask: Any) -> None:
        condition = joint.op.operands[0]
        for k, parts in enumerate(joint.parts):
            if not parts:
                continue

            def holds(k: int = k) -> str:
                v = self.recalled(condition)
                return self.value(f"xor i1 {v}, true") if k else v

            yes, end = self.label("some"), self.label("none")
            self.branch(self.narrowed(joint, mask, holds), yes, end)
            self.start(yes)
            self.parts(parts, id(joint))
            self.jump(end)
            self.start(end)

    def joint_for(self, joint: Joint, mask: Any) -> None:
        """All threads count from 0; a thread's index follows from its start and step."""
        op, own = joint.op, id(joint)
        index, t = op.regions[0].ops[0], op.operands[0].type
        assert isinstance(t, Scalar)
        lt, counter = LLVM_TYPES[t.name], self.alloca(LLVM_TYPES[t.name])
        head, inside, end = (self.label(x) for x in ("rounds", "round", "end"))
        self.narrowed(joint, mask, lambda: "true")
        self.lines.append(f"  store {lt} 0, ptr {counter}")
        self.jump(head)
        self.start(head)
        turn = self.value(f"load {lt}, ptr {counter}")

        def holds() -> str:
            trips = self.trips(t, *[self.recalled(v) for v in op.operands])
            return self.value(f"icmp ult {lt} {turn}, {trips}")

        self.branch(self.narrowed(joint, own, holds), inside, end)
        self.start(inside)

        def set_index() -> None:
            start, _, step = (self.recalled(v) for v in op.operands)
            value = self.value(f"add {lt} {start}, {self.value(f'mul {lt} {turn}, {step}')}")
            self.write(self.place_of(index), t, value, "")

        if index in self.plan.stored:
            self.each(own, set_index)
        self.parts(joint.parts[0], own)
        self.leave(joint)
        self.lines.append(f"  store {lt} {self.value(f'add {lt} {turn}, 1')}, ptr {counter}")
        self.jump(head)
        self.start(end)

    def joint_while(self, joint: Joint, mask: Any) -> None:
        op, own = joint.op, id(joint)
        condition = op.regions[0].ops[-1].operands[0]
        head, inside, end = (self.label(x) for x in ("rounds", "round", "end"))
        self.narrowed(joint, mask, lambda: "true")
        self.jump(head)
        self.start(head)
        self.parts(joint.parts[0], own)
        self.branch(self.narrowed(joint, own, lambda: self.recalled(condition)), inside, end)
        self.start(inside)
        self.parts(joint.parts[1], own)
        self.leave(joint)
        self.jump(head)
        self.start(end)

    def leave(self, joint: Joint) -> None:
        """Takes threads whose exit slot is true out of a loop."""
        slot = joint.op.attrs.get("exit")
        if slot is not None:
            self.narrowed(joint, id(joint), lambda: self.value(f"xor i1 {self.left(slot)}, true"))

    def left(self, slot: Op) -> str:
        return self.value(f"load i1, ptr {self.place_of(slot)}")

    def joint_custom(self, joint: Joint, mask: Any) -> None:
        self.parts(joint.parts[0], mask)

    def joint_vote(self, joint: Joint, mask: Any) -> None:
        """A word for each warp: the lanes that say yes; for `all`, those that say no."""
        op = joint.op
        warps = MAX_THREADS // WARP
        words = self.ballots[op] = self.alloca(f"[{warps} x i32]")
        self.declarations["memset"] = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"
        self.lines.append(f"  call void @llvm.memset.p0.i64(ptr {words}, i8 0, i64 {4 * warps}, i1 false)")

        def note() -> None:
            said = self.recalled(op.operands[0])
            if op.attrs["mode"] == "all":
                said = self.value(f"xor i1 {said}, true")
            word, lane = self.word(words), self.value(f"and i64 {self.t}, {WARP - 1}")
            bit = self.value(f"zext i1 {said} to i32")
            bit = self.value(f"shl i32 {bit}, {self.value(f'trunc i64 {lane} to i32')}")
            before = self.value(f"load i32, ptr {word}")
            self.lines.append(f"  store i32 {self.value(f'or i32 {before}, {bit}')}, ptr {word}")

        self.each(mask, note)

    def word(self, words: str) -> str:
        """The word of this thread's warp."""
        warp = self.value(f"lshr i64 {self.t}, {WARP_BITS}")
        return self.value(f"getelementptr inbounds i32, ptr {words}, i64 {warp}")

    # ops

    def vote(self, op: Op) -> None:
        said = self.value(f"load i32, ptr {self.word(self.ballots[op])}")
        test = {"any": "ne", "all": "eq"}.get(op.attrs["mode"])
        self.names[op] = said if test is None else self.value(f"icmp {test} i32 {said}, 0")

    def shuffle(self, op: Op) -> None:
        """The value of the lane asked for where the launch has that thread, else the own."""
        v, t = op.operands[0], op.type
        own, by = self.recalled(v), self.names[op.operands[1]]
        if v.kind in _EVERYWHERE:
            self.names[op] = own
            return
        lane = self.places["lane_id"]
        word = {"idx": "", "down": "add", "up": "sub", "xor": "xor"}[op.attrs["mode"]]
        source = self.value(f"{word} i32 {lane}, {by}") if word else by
        inside = self.value(f"icmp ult i32 {source}, {WARP}")
        first = self.value(f"and i64 {self.t}, -{WARP}")
        thread = self.value(f"add i64 {first}, {self.value(f'zext i32 {source} to i64')}")
        there = self.value(f"and i1 {inside}, {self.value(f'icmp slt i64 {thread}, %n')}")
        mine, self.t = self.t, self.value(f"select i1 {there}, i64 {thread}, i64 {self.t}")
        self.names[op] = self.read(self.place_of(v), t, "")  # type: ignore[arg-type]
        self.t = mine

    def slot(self, op: Op) -> None:
        if op not in self.plan.stored:
            super().slot(op)

    def slot_place(self, slot: Op) -> str:
        return self.place_of(slot) if slot in self.plan.stored else super().slot_place(slot)

    def local(self, op: Op) -> None:
        if op.attrs.get("shared"):
            return
        if op not in self.plan.stored:
            super().local(op)
        elif not op.attrs.keys() & {"filled", "unset"}:
            self.declarations["memset"] = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"
            place = self.place_of(op)
            self.lines.append(f"  call void @llvm.memset.p0.i64(ptr {place}, i8 0, i64 {self.sizes[op]}, i1 false)")

    def local_place(self, op: Op) -> tuple[str, Scalar]:
        array = op.operands[0]
        if array in self.plan.stored:
            self.names[array] = self.place_of(array)
        return super().local_place(op)

    def local_pointer(self, op: Op) -> None:
        array = op.operands[0]
        self.names[op] = self.place_of(array) if array in self.plan.stored else self.names[array]


def _bytes(op: Op) -> int:
    """Of what is stored for a thread."""
    if op.kind == "local":
        assert isinstance(op.type, LocalArray)
        return padded(op)
    return 8 if isinstance(op.type, Pointer) else op.type.size  # type: ignore[attr-defined]


_JOINT: dict[str, Callable[[Block, Joint, Any], None]] = {
    "if": Block.joint_if, "for": Block.joint_for, "while": Block.joint_while, "vote": Block.joint_vote,
    "custom": Block.joint_custom,
}  # fmt: skip
Block.structure = {**STRUCTURE, "slot": Block.slot, "local": Block.local, "local_load": Block.local_load,
                   "local_store": Block.local_store, "local_pointer": Block.local_pointer, "shuffle": Block.shuffle,
                   "vote": Block.vote}  # fmt: skip
