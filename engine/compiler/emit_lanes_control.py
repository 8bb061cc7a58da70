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
TWICE = 200  # a body of more operations is not made a second time for when all lanes run
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
    return kind == "load" and e.analysis.lane_bytes(op) == op.type.size and memory.can_mask(e, op.type)  # type: ignore[attr-defined, arg-type]


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
    if not PREDICATED <= cost(region) <= TWICE:
        return False
    for op in region.walk():
        if op.kind in ("load", "store"):
            by = e.analysis.lane_bytes(op)
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
        with e.aside():
            for_apart(e, op, e.mask)


def for_apart(e: Lanes, op: Op, mask: str) -> None:
    """Every lane from its own start; iterations are counted in step, each lane up to its own limit.

    Masks live in the limits, as integers: 0 for lanes that do not run or have left. A truth vector that is carried
    around a loop would be packed and unpacked on machines without mask registers.
    """
    start, _, step = op.operands
    t: Scalar = start.type  # type: ignore[assignment]
    lt, vt = LLVM_TYPES[t.name], e.vector_type(t)
    index, slot = op.regions[0].ops[0], op.attrs.get("exit")
    limits = trip_counts(e, op, t, mask)
    varying = e.stride(index) is VARYING
    starts = e.vector(start) if varying else ""
    steps = e.vector(step) if varying else ""
    outer, counter_place, limit_place = e.mask, e.alloca(lt), e.alloca(vt)
    e.lines += [f"  store {lt} 0, ptr {counter_place}", f"  store {vt} {limits}, ptr {limit_place}"]
    head, inside, latch, end = (e.label(name) for name in ("for", "body", "latch", "end"))
    e.jump(head)
    e.start(head)
    counter, limit = e.value(f"load {lt}, ptr {counter_place}"), e.value(f"load {vt}, ptr {limit_place}")
    count = e.splat(lt, counter)
    inner = e.value(f"icmp ult {vt} {count}, {limit}")
    e.branch(e.any(inner), inside, end)
    e.start(inside)
    e.vectors.pop(index, None)
    if varying:
        e.vectors[index] = e.value(f"add {vt} {starts}, {e.value(f'mul {vt} {count}, {steps}')}")
    else:
        e.names[index] = e.value(f"add {lt} {e.names[start]}, {e.value(f'mul {lt} {counter}, {e.names[step]}')}")
    e.mask = mask
    run(e, Region(op.regions[0].ops[1:]), inner)
    if slot is None:
        e.jump(latch)
    elif e.stride(slot) is not VARYING:
        e.branch(e.value(f"load i1, ptr {e.slot_place(slot)}"), end, latch)
    else:
        left = e.value(f"load <{e.width} x i1>, ptr {e.slot_place(slot)}")
        e.lines.append(f"  store {vt} {e.chosen(left, vt, 'zeroinitializer', limit)}, ptr {limit_place}")
        e.jump(latch)
    e.start(latch)
    e.lines.append(f"  store {lt} {e.value(f'add {lt} {counter}, 1')}, ptr {counter_place}")
    e.jump(head)
    e.lines[-1] += f", !llvm.loop {e.loop_node(e.whole)}"
    e.start(end)
    e.mask = outer


def trip_counts(e: Lanes, op: Op, t: Scalar, mask: str) -> str:
    """Iterations of each lane, unsigned; 0 for lanes that do not run."""
    start, stop, step = (e.vector(v) for v in op.operands)
    vt, sign = e.vector_type(t), "s" if t.kind == "i" else "u"
    by = op.operands[2].attrs["value"] if op.operands[2].kind == "const" else None
    if by in (1, -1):
        low, high = (start, stop) if by == 1 else (stop, start)
        some = e.value(f"icmp {sign}lt {vt} {low}, {high}")
        count = e.chosen(e.both(mask, some), vt, e.value(f"sub {vt} {high}, {low}"), "zeroinitializer")
        return count
    if mask:  # lanes that do not run get a step that nothing can go wrong with
        step = e.chosen(mask, vt, step, f"splat ({LLVM_TYPES[t.name]} 1)")
    e.on_vectors = True
    count = e.trips(t, start, stop, step)
    e.on_vectors = False
    return e.chosen(mask, vt, count, "zeroinitializer") if mask else count


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
    """As long as lanes are left: those whose ranges touch the first one's, in step if that is not much longer.

    Most of the time the ranges of all lanes have an index in common; then all of them are one group, and what they run
    in step is at most twice as long as the longest range.
    """
    t: Scalar = op.operands[0].type  # type: ignore[assignment]
    lt, vt = LLVM_TYPES[t.name], e.vector_type(t)
    a, b = e.vector(op.operands[0]), e.vector(op.operands[1])
    left = LiveLanes(e, e.both(e.mask, e.value(f"icmp slt {vt} {a}, {b}")))
    chosen, ends = LiveLanes(e, "zeroinitializer"), (e.alloca(lt), e.alloca(lt))
    names = ("groups", "group", "touching", "aligned", "apart", "groups.end")
    head, choose, touching, step, apart, end = (e.label(n) for n in names)
    e.jump(head)
    e.start(head)
    lanes = left.read()
    e.branch(e.any(lanes), choose, end)
    e.start(choose)
    union(e, t, lanes, a, b, ends)
    chosen.write(lanes)
    last, least = extent(e, t, lanes, a, b, ("smax", "smin"))
    e.branch(e.value(f"icmp sle {lt} {last}, {least}"), step, touching)
    e.start(touching)
    bits = e.value(f"zext i{e.width} {e.mask_bits(lanes)} to i64")
    first = e.intrinsic("llvm.cttz.i64", "i64", f"i64 {bits}", "i1 true")
    begins = e.value(f"icmp sle {vt} {a}, {e.splat(lt, e.lane(vt, b, first))}")
    stops = e.value(f"icmp sge {vt} {b}, {e.splat(lt, e.lane(vt, a, first))}")
    group = e.both(e.both(lanes, begins), stops)
    chosen.write(group)
    length = union(e, t, group, a, b, ends)
    longest = reduced(e, t, "umax", e.chosen(group, vt, e.value(f"sub {vt} {b}, {a}"), "zeroinitializer"))
    e.branch(e.value(f"icmp ule {lt} {length}, {e.value(f'shl {lt} {longest}, 1')}"), step, apart)
    e.start(step)
    group = chosen.read()
    left.write(e.both(lanes, e.value(f"xor {left.vt} {group}, splat (i1 true)")))
    begin, finish = (e.value(f"load {lt}, ptr {place}") for place in ends)
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


def union(e: Lanes, t: Scalar, lanes: str, a: str, b: str, ends: tuple[str, str]) -> str:
    """Stores the first start and the last end of the ranges of some lanes; returns what is between them."""
    lt = LLVM_TYPES[t.name]
    begin, finish = extent(e, t, lanes, a, b, ("smin", "smax"))
    e.lines += [f"  store {lt} {v}, ptr {place}" for v, place in zip((begin, finish), ends, strict=True)]
    return e.value(f"sub {lt} {finish}, {begin}")


def extent(e: Lanes, t: Scalar, lanes: str, a: str, b: str, words: tuple[str, str]) -> tuple[str, str]:
    """A reduction of the starts and one of the ends of some lanes."""
    lt, vt = LLVM_TYPES[t.name], e.vector_type(t)
    neutral = {"smin": literal(t, t.range[1]), "smax": literal(t, t.range[0])}
    first, second = (
        reduced(e, t, word, e.chosen(lanes, vt, v, f"splat ({lt} {neutral[word]})"))
        for word, v in zip(words, (a, b), strict=True)
    )
    return first, second


def reduced(e: Lanes, t: Scalar, word: str, v: str) -> str:
    vt = e.vector_type(t)
    return e.intrinsic(f"llvm.vector.reduce.{word}.v{e.width}i{t.bits}", LLVM_TYPES[t.name], f"{vt} {v}")


def fenced(e: Lanes, t: Scalar, v: str) -> str:
    """The same integers, of which LLVM knows no more that they depend on a mask: it would carry the mask itself around
    the loop, packed, which costs more than the comparison."""
    ft = f"<{e.width} x {'float' if t.bits == 32 else 'double'}>"
    name = f"llvm.arithmetic.fence.v{e.width}f{t.bits}"
    real = e.value(f"bitcast {e.vector_type(t)} {v} to {ft}")
    return e.value(f"bitcast {ft} {e.intrinsic(name, ft, f'{ft} {real}')} to {e.vector_type(t)}")


def for_aligned(e: Lanes, op: Op, group: str, begin: str, finish: str, a: str, b: str) -> None:
    """The union [begin, finish) of the ranges of `group`. It has no hole: every range touches that of one lane.

    A lane runs where (index - a) < (b - a) as unsigned numbers. Few processors compare those, so both sides are moved
    by the least signed number; the left one is counted along.
    """
    outer_mask, outer_analysis = e.mask, e.analysis
    e.analysis = in_step(e, op)
    t: Scalar = op.operands[0].type  # type: ignore[assignment]
    lt, vt, least = LLVM_TYPES[t.name], e.vector_type(t), t.range[0]
    index, slot = op.regions[0].ops[0], op.attrs.get("exit")
    place, ahead_place, limit_place = e.alloca(lt), e.alloca(vt), e.alloca(vt)
    base = e.splat(lt, e.value(f"xor {lt} {begin}, {least}"))
    length = e.value(f"xor {vt} {e.value(f'sub {vt} {b}, {a}')}, splat ({lt} {least})")
    never = f"splat ({lt} {least})"  # the limit of lanes that do not run or have left
    e.lines += [
        f"  store {lt} {begin}, ptr {place}",
        f"  store {vt} {e.value(f'sub {vt} {base}, {a}')}, ptr {ahead_place}",
        f"  store {vt} {fenced(e, t, e.chosen(group, vt, length, never))}, ptr {limit_place}",
    ]
    head, inside, body, latch, end = (e.label(n) for n in ("step", "inside", "body", "latch", "step.end"))
    e.jump(head)
    e.start(head)
    e.vectors.pop(index, None)
    e.names[index] = e.value(f"load {lt}, ptr {place}")
    e.branch(e.value(f"icmp slt {lt} {e.names[index]}, {finish}"), inside, end)
    e.start(inside)
    ahead, limit = e.value(f"load {vt}, ptr {ahead_place}"), e.value(f"load {vt}, ptr {limit_place}")
    mask = e.value(f"icmp slt {vt} {ahead}, {limit}")
    if slot is not None:
        e.branch(e.any(mask), body, latch)  # lanes that have left may leave a hole
    else:
        e.jump(body)
    e.start(body)
    e.mask = mask
    e.duplicated += 2
    e.region(Region(op.regions[0].ops[1:]))
    e.duplicated -= 2
    if slot is not None:
        left = e.value(f"load <{e.width} x i1>, ptr {e.slot_place(slot)}")
        limit = e.chosen(left, vt, never, limit)
        e.lines.append(f"  store {vt} {limit}, ptr {limit_place}")
        e.branch(e.any(e.value(f"icmp ne {vt} {limit}, {never}")), latch, end)
    else:
        e.jump(latch)
    e.start(latch)
    e.lines += [
        f"  store {lt} {e.value(f'add {lt} {e.names[index]}, 1')}, ptr {place}",
        f"  store {vt} {e.value(f'add {vt} {ahead}, splat ({lt} 1)')}, ptr {ahead_place}",
    ]
    e.jump(head)
    e.lines[-1] += f", !llvm.loop {e.loop_node(e.whole)}"
    e.start(end)
    e.mask, e.analysis = outer_mask, outer_analysis
