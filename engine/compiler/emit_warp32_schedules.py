"""LLVM text of other orders in which the lanes of a warp may run, and of stops at lines for a debugger.

`emu_pick_ipdom` keeps a stack as GPUs before Volta did: lanes that part meet again at the nearest block that all of
them come through (the immediate post-dominator), and those below on the stack wait until then. `emu_pick_random` takes
any block that some lane waits for, but keeps lanes where they need the others of the warp for as long as another one
can run. Both leave the end of a warp, its pauses and its turn for starved lanes to `emu_pick`.
"""

from __future__ import annotations

from engine.compiler.emit_warp32_order import field
from engine.compiler.warp_layout import CONTEXT, LANES, STOPPED, WAITING, WARP

PCS = f"<{LANES} x i16>"
PICKS = {"loop-aware": "emu_pick", "ipdom": "emu_pick_ipdom", "random": "emu_pick_random"}  # by schedule

# the lanes of %places that can run; whether `emu_pick` has to decide instead
_RUNNABLE = f"""  %places = load {PCS}, ptr %w, align 64
  %can = icmp ult {PCS} %places, splat (i16 {WAITING - 0x10000})
  %runnable = bitcast <{LANES} x i1> %can to i32
  %none = icmp eq i32 %runnable, 0
{field("warp_instructions", "%spent")}
{field("stop", "%stop")}
  %late = icmp uge i64 %spent, %stop
  %plain.1 = or i1 %none, %late"""

# %here: those of %among that wait for the same block as the lane %lane, which is %place
_SAME_PLACE = f"""  %place.at = getelementptr i16, ptr %w, i32 %lane
  %place = load i16, ptr %place.at
  %place.1 = insertelement {PCS} poison, i16 %place, i64 0
  %place.s = shufflevector {PCS} %place.1, {PCS} poison, <{LANES} x i32> zeroinitializer
  %equal = icmp eq {PCS} %places, %place.s
  %equal.bits = bitcast <{LANES} x i1> %equal to i32
  %here = and i32 %equal.bits, %among"""

_RESULT = """  %mask.wide = zext i32 %here to i64
  %mask.16 = shl i64 %mask.wide, 16
  %place.wide = zext i16 %place to i64
  %result = or i64 %mask.16, %place.wide
  ret i64 %result"""

_STACK_ENTRY = f"""  %depth.wide = zext i32 %depth to i64
  %depth.8 = shl i64 %depth.wide, 3
  %entry.offset = add i64 %depth.8, {WARP["stack"]}
  %entry.at = getelementptr i8, ptr %w, i64 %entry.offset
  %meet.at = getelementptr i8, ptr %entry.at, i64 4"""

_IPDOM = f"""
; the nearest place that both come through; a place is an index of %tree, its rank stands %size + 1 elements behind
define internal i16 @emu_common(ptr %tree, i64 %size, i16 %one, i16 %other) nounwind {{
entry:
  %ranks.offset = add i64 %size, 1
  %ranks = getelementptr i16, ptr %tree, i64 %ranks.offset
  br label %look
look:
  %a = phi i16 [ %one, %entry ], [ %a.next, %up ]
  %b = phi i16 [ %other, %entry ], [ %b.next, %up ]
  %equal = icmp eq i16 %a, %b
  br i1 %equal, label %done, label %up
up:
  %a.wide = zext i16 %a to i64
  %b.wide = zext i16 %b to i64
  %a.rank.at = getelementptr i16, ptr %ranks, i64 %a.wide
  %b.rank.at = getelementptr i16, ptr %ranks, i64 %b.wide
  %a.rank = load i16, ptr %a.rank.at
  %b.rank = load i16, ptr %b.rank.at
  %a.lower = icmp slt i16 %a.rank, %b.rank
  %a.at = getelementptr i16, ptr %tree, i64 %a.wide
  %b.at = getelementptr i16, ptr %tree, i64 %b.wide
  %a.up = load i16, ptr %a.at
  %b.up = load i16, ptr %b.at
  %a.next = select i1 %a.lower, i16 %a.up, i16 %a
  %b.next = select i1 %a.lower, i16 %b, i16 %b.up
  br label %look
done:
  ret i16 %a
}}

define i64 @emu_pick_ipdom(ptr %c, ptr %w) nounwind {{
entry:
{_RUNNABLE}
  %high.at = getelementptr i8, ptr %w, i64 {WARP["high"]}
  %high = load i32, ptr %high.at
  %starved = icmp ne i32 %high, 0
  %plain = or i1 %plain.1, %starved
  br i1 %plain, label %simple, label %begin
simple:
  %simply = call i64 @emu_pick(ptr %c, ptr %w)
  ret i64 %simply
begin:
  %depth.at = getelementptr i8, ptr %w, i64 {WARP["depth"]}
{field("tree", "%tree", "ptr")}
{field("tree_size", "%size")}
  br label %look
look:
  %depth = load i32, ptr %depth.at
{_STACK_ENTRY}
  %members = load i32, ptr %entry.at
  %meet = load i16, ptr %meet.at
  %among = and i32 %members, %runnable
  %empty = icmp eq i32 %among, 0
  br i1 %empty, label %pop, label %some
pop:
  %depth.less = sub i32 %depth, 1
  store i32 %depth.less, ptr %depth.at
  br label %look
some:
  %lane = call i32 @llvm.cttz.i32(i32 %among, i1 true)
{_SAME_PLACE}
  %together = icmp eq i32 %here, %among
  br i1 %together, label %one, label %part
one:
  %arrived = icmp eq i16 %place, %meet
  %inner = icmp ne i32 %depth, 0
  %over = and i1 %arrived, %inner
  br i1 %over, label %pop, label %run
run:
{_RESULT}
part:
  br label %find
find:
  %left = phi i32 [ %among, %part ], [ %left.next, %find ]
  %common = phi i16 [ %place, %part ], [ %common.next, %find ]
  %f.lane = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %f.place.at = getelementptr i16, ptr %w, i32 %f.lane
  %f.place = load i16, ptr %f.place.at
  %common.next = call i16 @emu_common(ptr %tree, i64 %size, i16 %common, i16 %f.place)
  %minus = sub i32 %left, 1
  %left.next = and i32 %left, %minus
  %more = icmp ne i32 %left.next, 0
  br i1 %more, label %find, label %push
push:
  %rest = phi i32 [ %among, %find ], [ %rest.next, %pushed ]
  %at.depth = phi i32 [ %depth, %find ], [ %new.depth, %pushed ]
  %p.lane = call i32 @llvm.cttz.i32(i32 %rest, i1 true)
  %p.place.at = getelementptr i16, ptr %w, i32 %p.lane
  %p.place = load i16, ptr %p.place.at
  %p.1 = insertelement {PCS} poison, i16 %p.place, i64 0
  %p.s = shufflevector {PCS} %p.1, {PCS} poison, <{LANES} x i32> zeroinitializer
  %p.equal = icmp eq {PCS} %places, %p.s
  %p.bits = bitcast <{LANES} x i1> %p.equal to i32
  %group = and i32 %p.bits, %rest
  %group.not = xor i32 %group, -1
  %rest.next = and i32 %rest, %group.not
  %waits = icmp eq i16 %p.place, %common.next
  br i1 %waits, label %pushed, label %add
add:
  %deeper = add i32 %at.depth, 1
  %deeper.wide = zext i32 %deeper to i64
  %deeper.8 = shl i64 %deeper.wide, 3
  %new.offset = add i64 %deeper.8, {WARP["stack"]}
  %new.at = getelementptr i8, ptr %w, i64 %new.offset
  store i32 %group, ptr %new.at
  %new.meet = getelementptr i8, ptr %new.at, i64 4
  store i16 %common.next, ptr %new.meet
  br label %pushed
pushed:
  %new.depth = phi i32 [ %at.depth, %push ], [ %deeper, %add ]
  %again = icmp ne i32 %rest.next, 0
  br i1 %again, label %push, label %store
store:
  store i32 %new.depth, ptr %depth.at
  br label %look
}}
"""

_RANDOM = f"""
define i64 @emu_pick_random(ptr %c, ptr %w) nounwind {{
entry:
{_RUNNABLE}
  br i1 %plain.1, label %simple, label %begin
simple:
  %high.at = getelementptr i8, ptr %w, i64 {WARP["high"]}
  store i32 0, ptr %high.at  ; no lane starves where chance decides
  %simply = call i64 @emu_pick(ptr %c, ptr %w)
  ret i64 %simply
begin:
{field("meeting", "%meeting", "ptr")}
  br label %look
look:
  %left = phi i32 [ %runnable, %begin ], [ %left.next, %look ]
  %free = phi i32 [ 0, %begin ], [ %free.next, %look ]
  %l.lane = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %l.place.at = getelementptr i16, ptr %w, i32 %l.lane
  %l.place = load i16, ptr %l.place.at
  %l.wide = zext i16 %l.place to i64
  %l.meets.at = getelementptr i8, ptr %meeting, i64 %l.wide
  %l.meets = load i8, ptr %l.meets.at
  %l.free = icmp eq i8 %l.meets, 0
  %l.bit = shl i32 1, %l.lane
  %l.add = select i1 %l.free, i32 %l.bit, i32 0
  %free.next = or i32 %free, %l.add
  %minus = sub i32 %left, 1
  %left.next = and i32 %left, %minus
  %more = icmp ne i32 %left.next, 0
  br i1 %more, label %look, label %looked
looked:
  %among = phi i32 [ %free.next, %look ]
  %stuck = icmp eq i32 %among, 0
  br i1 %stuck, label %simple, label %choose
choose:
  %number = call i64 @emu_random(ptr %c)
  %number.32 = trunc i64 %number to i32
  %turned = and i32 %number.32, {LANES - 1}
  %rolled = call i32 @llvm.fshr.i32(i32 %among, i32 %among, i32 %turned)
  %first = call i32 @llvm.cttz.i32(i32 %rolled, i1 true)
  %lane.sum = add i32 %first, %turned
  %lane = and i32 %lane.sum, {LANES - 1}
{_SAME_PLACE.replace("%here =", "%all =")}
  ; a third of the times only some of them go on
  %high.bits = lshr i64 %number, 32
  %subset = trunc i64 %high.bits to i32
  %dice = urem i32 %number.32, 3
  %some = icmp eq i32 %dice, 0
  %own = shl i32 1, %lane
  %chosen = or i32 %subset, %own
  %kept = select i1 %some, i32 %chosen, i32 -1
  %here = and i32 %all, %kept
{_RESULT}
}}

declare i32 @llvm.fshr.i32(i32, i32, i32)
"""

_STEP = f"""
; lanes %mask come to a line, at %place: counts it, and asks the debugger at the wanted count and where a flag is set.
; The hook's answer is whether to stop; the same line is then the first of the next call, and does not count again.
; Nor does another part of the line where the warp was last, if it stands further on. %line: line and file.
define i1 @emu_step(ptr %c, ptr %w, i32 %mask, i64 %place, i64 %line) nounwind {{
entry:
{field("step_again", "%again")}
  %first = icmp eq i64 %again, 0
  br i1 %first, label %count, label %resume
resume:
  store i64 0, ptr %again.at
  ret i1 false
count:
  %last.at = getelementptr i8, ptr %w, i64 {WARP["last_stop"]}
  %last = load i64, ptr %last.at
  %last.line = lshr i64 %last, 16
  %last.place = and i64 %last, 65535
  %line.16 = shl i64 %line, 16
  %place.1 = add i64 %place, 1
  %this = or i64 %line.16, %place.1
  store i64 %this, ptr %last.at
  %same = icmp eq i64 %line, %last.line
  %further = icmp ugt i64 %place.1, %last.place
  %part = and i1 %same, %further
  br i1 %part, label %go, label %whole
whole:
{field("steps", "%steps")}
  %now = add i64 %steps, 1
  store i64 %now, ptr %steps.at
{field("step_goal", "%goal")}
{field("step_flags", "%flags", "ptr")}
  %flag.at = getelementptr i8, ptr %flags, i64 %place
  %flag = load i8, ptr %flag.at
  %reached = icmp uge i64 %now, %goal
  %flagged = icmp ne i8 %flag, 0
  %ask = or i1 %reached, %flagged
  br i1 %ask, label %call, label %go
call:
{field("step_hook", "%hook", "ptr")}
  %answer = call i32 %hook(ptr %w, i32 %mask, i64 %place)
  %stops = icmp ne i32 %answer, 0
  br i1 %stops, label %stop, label %go
stop:
  store i64 1, ptr %again.at
  %fault.at = getelementptr i8, ptr %c, i64 {CONTEXT["fault"]}
  store i64 {STOPPED}, ptr %fault.at
  ret i1 true
go:
  ret i1 false
}}
"""


def schedules() -> str:
    """The functions; they call `emu_pick` and `emu_random` of the same module."""
    return _IPDOM + _RANDOM + _STEP
