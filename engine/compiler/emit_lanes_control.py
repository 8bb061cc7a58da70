"""Control flow of the lanes shape: masks where lanes may part, branches where they cannot (for `emit_lanes`).

    if      small bodies run under their mask without a branch; others are skipped when no lane runs them
    loops   go round until no lane is left; a lane that has finished is masked off
    bodies  large ones exist twice: without masks, for when all lanes run, which is most of the time

*Aligned loops*: where each lane has its own range(a, b), lanes whose ranges overlap run the union in step, each
under the mask a ≤ j < b. The index is then the same in all lanes and loads at it are scalar loads. Each lane still sees
its own indices in ascending order, so that nothing changes in its results. When the ranges hardly overlap, the lanes
run from their own starts instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.compiler import emit_lanes_memory as memory
from engine.compiler.emit_ops import LLVM_TYPES, literal
from engine.compiler.emit_thread import Thread
from engine.compiler.ir import Op, Region
from engine.compiler.ops import ELEMENTWISE
from engine.compiler.types import Scalar
from engine.compiler.uniform import VARYING, Uniformity

if TYPE_CHECKING:
    from engine.compiler.emit_lanes import Lanes

PREDICATED = 40  # a body of fewer operations runs under its mask without a branch around it
ALIGNED_BODY = 400  # a loop body of more operations is not made a second time for aligned ranges
_FREE = frozenset({"const", "slot", "get", "index", "condition"})
_COSTS = {"div": 8, "sqrt": 10, "floordiv": 40, "mod": 40}


def cost(region: Region) -> int:
    """Operations of a region and all regions in it."""
    return sum(0 if op.kind in _FREE else _COSTS.get(op.kind, 1) for op in region.walk())


# bodies


def is_small(e: Lanes, region: Region) -> bool:
    """Whether a body may run even when no lane wants it: cheap, and harmless without any lane."""
    return cost(region) < PREDICATED and all(_harmless(e, op) for op in region.walk())


def _harmless(e: Lanes, op: Op) -> bool:
    kind = op.kind
    if kind in ELEMENTWISE or kind in _FREE or kind in ("cast", "bitcast", "select", "set"):
        return True
    if kind == "if":
        return op in e.analysis.divergent
    if kind in ("local_load", "local_store"):
        return op.operands[1].kind == "const"
    # a load with an empty mask touches nothing
    return kind == "load" and memory.lane_bytes(e, op) == op.type.size and memory.can_mask(e, op.type)  # type: ignore[attr-defined, arg-type]


def run(e: Lanes, region: Region, mask: str) -> None:
    """A body under a mask; without one where all lanes run and that is worth a second copy."""
    outer = e.mask
    if not outer and not e.duplicated and is_worth_twice(e, region):
        e.duplicated += 1
        whole, some, end = e.label("all"), e.label("some"), e.label("joined")
        e.branch(e.all(mask), whole, some)
        e.start(whole)
        e.region(region)
        e.jump(end)
        e.start(some)
        e.mask = mask
        e.region(region)
        e.jump(end)
        e.start(end)
        e.duplicated -= 1
    else:
        e.mask = mask
        e.region(region)
    e.mask = outer


def is_worth_twice(e: Lanes, region: Region) -> bool:
    """Large bodies with accesses to memory that a mask makes slower."""
    if cost(region) < PREDICATED:
        return False
    for op in region.walk():
        if op.kind in ("load", "store"):
            by = memory.lane_bytes(e, op)
            t = op.type if op.kind == "load" else op.operands[-1].type
            if by is not None and by != 0 and (op.kind == "store" or by != t.size):  # type: ignore[attr-defined]
                return True
    return False


# if


def if_(e: Lanes, op: Op) -> None:
    if op not in e.analysis.divergent:
        Thread.if_(e, op)
        return
    condition = e.vector(op.operands[0])
    then, other = op.regions
    masks = [(then, e.both(e.mask, condition))]
    if other.ops:
        opposite = e.value(f"xor <{e.width} x i1> {condition}, splat (i1 true)")
        masks.append((other, e.both(e.mask, opposite)))
    for region, mask in masks:
        if not region.ops:
            continue
        if is_small(e, region):
            outer, e.mask = e.mask, mask
            e.region(region)
            e.mask = outer
            continue
        inside, end = e.label("then"), e.label("end")
        e.branch(e.any(mask), inside, end)
        e.start(inside)
        run(e, region, mask)
        e.jump(end)
        e.start(end)


# loops


def while_(e: Lanes, op: Op) -> None:
    if op not in e.analysis.divergent:
        Thread.while_(e, op)
        return
    outer = e.mask
    condition, body = op.regions
    live = LiveLanes(e, outer)
    head, inside, end = e.label("while"), e.label("body"), e.label("end")
    e.jump(head)
    e.start(head)
    before = live.read()
    e.mask = before
    for inner in condition.ops[:-1]:
        e.region(Region([inner]))
    test = condition.ops[-1].operands[0]
    mask = before
    if e.stride(test) is VARYING:
        mask = e.both(before, e.vector(test))
        e.branch(e.any(mask), inside, end)
    else:
        e.branch(e.names[test], inside, end)
    e.start(inside)
    e.mask = outer
    run(e, body, mask)
    live.latch(op, mask, head, end)
    e.start(end)
    e.mask = outer


class LiveLanes:
    """The lanes that a loop still runs for, in stack memory."""

    def __init__(self, e: Lanes, mask: str):
        self.e, self.vt = e, f"<{e.width} x i1>"
        self.place = e.alloca(self.vt)
        self.write(mask or "splat (i1 true)")

    def read(self) -> str:
        return self.e.value(f"load {self.vt}, ptr {self.place}")

    def write(self, mask: str) -> None:
        self.e.lines.append(f"  store {self.vt} {mask}, ptr {self.place}")

    def latch(self, op: Op, mask: str, head: str, end: str) -> None:
        """The end of an iteration that ran under `mask`: lanes whose exit slot is true leave."""
        e, slot = self.e, op.attrs.get("exit")
        if slot is None:
            self.write(mask)
            e.jump(head)
        elif e.stride(slot) is not VARYING:
            self.write(mask)
            e.branch(e.value(f"load i1, ptr {e.slot_place(slot)}"), end, head)
        else:
            left = e.value(f"load {self.vt}, ptr {e.slot_place(slot)}")
            staying = e.both(mask, e.value(f"xor {self.vt} {left}, splat (i1 true)"))
            self.write(staying)
            e.branch(e.any(staying), head, end)
        if op.kind == "while":
            e.lines[-1] += f", !llvm.loop {e.loop_node(e.whole)}"


def for_(e: Lanes, op: Op) -> None:
    if op not in e.analysis.divergent:
        Thread.for_(e, op)
    elif may_align(e, op):
        for_grouped(e, op)
    else:
        for_apart(e, op, e.mask)


def for_apart(e: Lanes, op: Op, mask: str) -> None:
    """Every lane from its own start; iterations are counted in step."""
    start, stop, step = op.operands
    t: Scalar = start.type  # type: ignore[assignment]
    lt, vt, sign = LLVM_TYPES[t.name], e.vector_type(t), "s" if t.kind == "i" else "u"
    by = step.attrs["value"] if step.kind == "const" else None
    index = op.regions[0].ops[0]
    affine = e.stride(index) is not VARYING
    last = e.vector(stop) if by in (1, -1) else trip_counts(e, op, t, mask)
    starts = "" if affine else e.vector(start)
    steps = "" if affine or by in (1, -1) else e.vector(step)

    def test(counter: str) -> str:
        e.vectors.pop(index, None)
        count = e.splat(lt, counter)
        if by not in (1, -1):
            if affine:
                moved = e.value(f"mul {lt} {counter}, {e.names[step]}")
                e.names[index] = e.value(f"add {lt} {e.names[start]}, {moved}")
            else:
                e.vectors[index] = e.value(f"add {vt} {starts}, {e.value(f'mul {vt} {count}, {steps}')}")
            return e.value(f"icmp ult {vt} {count}, {last}")
        word = "add" if by == 1 else "sub"
        if affine:
            e.names[index] = e.value(f"{word} {lt} {e.names[start]}, {counter}")
            return e.value(f"icmp {sign}{'lt' if by == 1 else 'gt'} {vt} {e.vector(index)}, {last}")
        e.vectors[index] = e.value(f"{word} {vt} {starts}, {count}")
        return e.value(f"icmp {sign}{'lt' if by == 1 else 'gt'} {vt} {e.vectors[index]}, {last}")

    with e.aside():
        counted(e, op, mask, "0", test)


def trip_counts(e: Lanes, op: Op, t: Scalar, mask: str) -> str:
    """Iterations of each lane; lanes that do not run get a step that nothing can go wrong with."""
    start, stop, step = (e.vector(v) for v in op.operands)
    if mask:
        step = e.chosen(mask, e.vector_type(t), step, f"splat ({LLVM_TYPES[t.name]} 1)")
    e.on_vectors = True
    count = e.trips(t, start, stop, step)
    e.on_vectors = False
    return count


def counted(e: Lanes, op: Op, mask: str, first: str, test: Callable[[str], str]) -> None:
    """A loop with one counter for all lanes; `test` sets the index and gives the lanes that are in range."""
    outer = e.mask
    t: Scalar = op.operands[0].type  # type: ignore[assignment]
    lt = LLVM_TYPES[t.name]
    memory_place = e.alloca(lt)
    live = LiveLanes(e, mask)
    e.lines.append(f"  store {lt} {first}, ptr {memory_place}")
    head, inside, latch, end = (e.label(name) for name in ("for", "body", "latch", "end"))
    e.jump(head)
    e.start(head)
    counter = e.value(f"load {lt}, ptr {memory_place}")
    inner = e.both(live.read(), test(counter))
    e.branch(e.any(inner), inside, end)
    e.start(inside)
    e.mask = mask
    run(e, Region(op.regions[0].ops[1:]), inner)
    live.latch(op, inner, latch, end)
    e.start(latch)
    e.lines.append(f"  store {lt} {e.value(f'add {lt} {counter}, 1')}, ptr {memory_place}")
    e.jump(head)
    e.lines[-1] += f", !llvm.loop {e.loop_node(e.whole)}"
    e.start(end)
    e.mask = outer


# aligned loops


def may_align(e: Lanes, op: Op) -> bool:
    """Whether running ranges in step is possible and may pay: a step of 1, starts of their own that were looked up in
    memory, and loads that one index for all lanes makes uniform."""
    start, stop, step = op.operands
    if not (step.kind == "const" and step.attrs["value"] == 1) or e.stride(start) is not VARYING:
        return False
    if start.type.kind != "i" or e.duplicated > 1 or cost(op.regions[0]) > ALIGNED_BODY:  # type: ignore[attr-defined]
        return False
    if any(inner.kind == "atomic" and inner in e.analysis.used for inner in op.regions[0].walk()):
        return False
    aligned = in_step(e, op)
    return any(
        inner.kind == "load" and aligned.strides[inner] == 0 and e.stride(inner) is VARYING
        for inner in op.regions[0].walk()
    )


def in_step(e: Lanes, op: Op) -> Uniformity:
    """The analysis with this loop aligned."""
    wanted = e.analysis.aligned | {op}
    known = e.analyses.get(wanted)
    if known is None:
        known = e.analyses[wanted] = Uniformity(e.fn, wanted)
    return known


def for_grouped(e: Lanes, op: Op) -> None:
    """As long as lanes are left: those whose ranges touch the first one's, in step if that is not much longer."""
    start, stop, _ = op.operands
    t: Scalar = start.type  # type: ignore[assignment]
    lt, vt = LLVM_TYPES[t.name], e.vector_type(t)
    low, high = t.range
    a, b = e.vector(start), e.vector(stop)
    left = LiveLanes(e, e.both(e.mask, e.value(f"icmp slt {vt} {a}, {b}")))
    head, choose, step, apart, end = (e.label(n) for n in ("groups", "group", "aligned", "apart", "groups.end"))
    e.jump(head)
    e.start(head)
    lanes = left.read()
    e.branch(e.any(lanes), choose, end)
    e.start(choose)
    bits = e.value(f"zext i{e.width} {e.bits(lanes)} to i64")
    first = e.intrinsic("llvm.cttz.i64", "i64", f"i64 {bits}", "i1 true")
    begins = e.value(f"icmp sle {vt} {a}, {e.splat(lt, e.lane(vt, b, first))}")
    ends = e.value(f"icmp sge {vt} {b}, {e.splat(lt, e.lane(vt, a, first))}")
    group = e.both(e.both(lanes, begins), ends)
    begin = reduced(e, t, "smin", e.chosen(group, vt, a, f"splat ({lt} {literal(t, high)})"))
    finish = reduced(e, t, "smax", e.chosen(group, vt, b, f"splat ({lt} {literal(t, low)})"))
    lengths = e.chosen(group, vt, e.value(f"sub {vt} {b}, {a}"), "zeroinitializer")
    longest = reduced(e, t, "umax", lengths)
    union = e.value(f"sub {lt} {finish}, {begin}")
    bound = e.value(f"shl {lt} {longest}, 1")
    e.branch(e.value(f"icmp ule {lt} {union}, {bound}"), step, apart)
    e.start(step)
    left.write(e.both(lanes, e.value(f"xor {left.vt} {group}, splat (i1 true)")))
    with e.aside():
        for_aligned(e, op, group, begin, finish, a, b)
    e.jump(head)
    e.lines[-1] += f", !llvm.loop {e.loop_node(e.once)}"
    e.start(apart)
    e.duplicated += 1
    with e.aside():
        for_apart(e, op, lanes)
    e.duplicated -= 1
    e.jump(end)
    e.start(end)


def reduced(e: Lanes, t: Scalar, word: str, v: str) -> str:
    vt = e.vector_type(t)
    return e.intrinsic(f"llvm.vector.reduce.{word}.v{e.width}i{t.bits}", LLVM_TYPES[t.name], f"{vt} {v}")


def for_aligned(e: Lanes, op: Op, group: str, begin: str, finish: str, a: str, b: str) -> None:
    """The union [begin, finish) of the ranges of `group`. It has no hole: every range touches that of one lane."""
    outer_mask, outer_analysis = e.mask, e.analysis
    e.analysis = in_step(e, op)
    t: Scalar = op.operands[0].type  # type: ignore[assignment]
    lt, vt = LLVM_TYPES[t.name], e.vector_type(t)
    index = op.regions[0].ops[0]
    place = e.alloca(lt)
    e.lines.append(f"  store {lt} {begin}, ptr {place}")
    live = LiveLanes(e, group)
    head, inside, body, latch, end = (e.label(n) for n in ("step", "inside", "body", "latch", "step.end"))
    e.jump(head)
    e.start(head)
    e.vectors.pop(index, None)
    e.names[index] = e.value(f"load {lt}, ptr {place}")
    e.branch(e.value(f"icmp slt {lt} {e.names[index]}, {finish}"), inside, end)
    e.start(inside)
    at = e.splat(lt, e.names[index])
    staying = live.read()
    mask = e.both(staying, e.both(e.value(f"icmp sle {vt} {a}, {at}"), e.value(f"icmp slt {vt} {at}, {b}")))
    if op.attrs.get("exit") is not None:
        e.branch(e.any(mask), body, latch)  # lanes that have left may leave a hole
    else:
        e.jump(body)
    e.start(body)
    e.mask = mask
    e.duplicated += 2
    e.region(Region(op.regions[0].ops[1:]))
    e.duplicated -= 2
    slot = op.attrs.get("exit")
    if slot is not None:
        left = e.value(f"load {live.vt}, ptr {e.slot_place(slot)}")
        gone = e.both(mask, left)
        rest = e.both(staying, e.value(f"xor {live.vt} {gone}, splat (i1 true)"))
        live.write(rest)
        e.branch(e.any(rest), latch, end)
    else:
        e.jump(latch)
    e.start(latch)
    e.lines.append(f"  store {lt} {e.value(f'add {lt} {e.names[index]}, 1')}, ptr {place}")
    e.jump(head)
    e.lines[-1] += f", !llvm.loop {e.loop_node(e.whole)}"
    e.start(end)
    e.mask, e.analysis = outer_mask, outer_analysis
