"""LLVM text of how a warp goes from block to block of a kernel's code: handlers of branches, barriers and ends.

They are handlers as `emit_warp32_handler` describes them. While all lanes that can run agree, blocks jump to each
other; where lanes part, each notes the place of the block that it waits for, and `emu_dispatch` runs the one that the
schedule picks. An edge to another block is three words: its place, the address of its code, and whether it leads back.
"""

from __future__ import annotations

from engine.compiler.emit_warp32_handler import go_on
from engine.compiler.emit_warp32_order import field
from engine.compiler.warp_layout import LANES, LEFT, PAUSED, TRAP, WAITING, WARP

HANDLERS = ("emu_count", "emu_edge", "emu_branch", "emu_indexed", "emu_leave", "emu_leave_some", "emu_wait",
            "emu_wait_some", "emu_trapped", "emu_stop")  # fmt: skip
EDGE = 3  # words
_PLACES = f"<{LANES} x i16>"
_HEAD = "(ptr noalias %c, ptr noalias %w, ptr noalias %code, i32 %mask) nounwind {\nentry:"


def flow_handlers() -> str:
    """The functions; they call those of the other parts of the runtime, in the same module."""
    return "\n".join((_ENTER, _DISPATCH, _COUNT, _EDGE, _BRANCH, _INDEXED, _LEAVE, _WAIT, _TRAP, _STOP))


def _word(number: int, into: str, kind: str = "i64") -> str:
    return f"  {into}.at = getelementptr i64, ptr %code, i64 {number}\n  {into} = load {kind}, ptr {into}.at"


def _jump(name: str, code: str = "%code", mask: str = "%mask", of: str = "") -> str:
    """Lines that go on in another handler."""
    return (f"  {of or '%status'} = musttail call i32 {name}(ptr %c, ptr %w, ptr {code}, i32 {mask})\n"
            f"  ret i32 {of or '%status'}")  # fmt: skip


def _park(lanes: str, taken: str, there: str, other: str) -> str:
    return f"  call void @emu_part(ptr %w, i32 {lanes}, i32 {taken}, i16 {there}, i16 {other})"


def _fewer(lanes: str) -> str:
    """Lines that take %lanes from those that can run."""
    return f"""  %alive.at = getelementptr i8, ptr %w, i64 {WARP["alive"]}
  %alive = load i32, ptr %alive.at
  %others = xor i32 {lanes}, -1
  %alive.rest = and i32 %alive, %others
  store i32 %alive.rest, ptr %alive.at"""


# %taken: the lanes for which a predicate holds; its place and what to flip are words 0 and 1
_TAKEN = f"""{_word(0, "%offset")}
{_word(1, "%flip", "i32")}
  %predicate.at = getelementptr i8, ptr %w, i64 %offset
  %predicate = load i32, ptr %predicate.at
  %flipped = xor i32 %predicate, %flip
  %taken = and i32 %flipped, %mask"""

_ENTER = f"""
; runs a warp until its lanes have ended, wait, or are paused: which of these
define i32 @emu_enter(ptr %c, ptr %w) nounwind {{
  %can = call i32 @emu_runnable(ptr %w)
  %alive.at = getelementptr i8, ptr %w, i64 {WARP["alive"]}
  store i32 %can, ptr %alive.at
  %status = call i32 @emu_dispatch(ptr %c, ptr %w, ptr null, i32 0)
  ret i32 %status
}}
"""

_DISPATCH = f"""
define i32 @emu_dispatch{_HEAD}
{field("pick", "%pick", "ptr")}
  %picked = call i64 %pick(ptr %c, ptr %w)
  %some = icmp sge i64 %picked, 0
  br i1 %some, label %go, label %return
go:
{field("blocks", "%blocks", "ptr")}
  %place = and i64 %picked, 65535
  %lanes.64 = lshr i64 %picked, 16
  %lanes = trunc i64 %lanes.64 to i32
  %block.at = getelementptr ptr, ptr %blocks, i64 %place
  %block = load ptr, ptr %block.at
{go_on(0, "%block", "%lanes")}
return:
  %inverse = trunc i64 %picked to i32
  %state = xor i32 %inverse, -1
  ret i32 %state
}}
"""

_COUNT = f"""
; word 0: instructions of the block
define i32 @emu_count{_HEAD}
{_word(0, "%length")}
{field("warp_instructions", "%warps")}
  %warps.more = add i64 %warps, %length
  store i64 %warps.more, ptr %warps.at
  %lanes = call i32 @llvm.ctpop.i32(i32 %mask)
  %lanes.64 = zext i32 %lanes to i64
  %more = mul i64 %lanes.64, %length
{field("thread_instructions", "%threads")}
  %threads.more = add i64 %threads, %more
  store i64 %threads.more, ptr %threads.at
{go_on(1)}
}}

declare i32 @llvm.ctpop.i32(i32)
"""

_EDGE = f"""
; an edge that all lanes take
define i32 @emu_edge{_HEAD}
  %alive.at = getelementptr i8, ptr %w, i64 {WARP["alive"]}
  %alive = load i32, ptr %alive.at
  %together = icmp eq i32 %alive, %mask
  br i1 %together, label %check, label %park
check:
{_word(2, "%back")}
  %is.back = icmp ne i64 %back, 0
  br i1 %is.back, label %look, label %go
look:
{field("warp_instructions", "%spent")}
{field("stop", "%stop")}
  %early = icmp ult i64 %spent, %stop
  br i1 %early, label %go, label %pause
go:
{_word(1, "%target", "ptr")}
{go_on(0, "%target")}
park:
  %place = load i16, ptr %code
{_park("%mask", "%mask", "%place", "%place")}
{_jump("@emu_dispatch")}
pause:
  %here = load i16, ptr %code
{_park("%mask", "%mask", "%here", "%here")}
  ret i32 {PAUSED}
}}
"""

_BRANCH = f"""
; words: a predicate, the edge of those for which it holds, that of the others
define i32 @emu_branch{_HEAD}
{_TAKEN}
  %follow = getelementptr i64, ptr %code, i64 {2 + EDGE}
  %target = getelementptr i64, ptr %code, i64 2
  %none = icmp eq i32 %taken, 0
  br i1 %none, label %past, label %some
past:
{_jump("@emu_edge", "%follow", of="%a")}
some:
  %every = icmp eq i32 %taken, %mask
  br i1 %every, label %all, label %both
all:
{_jump("@emu_edge", "%target", of="%b")}
both:
  %there = load i16, ptr %target
  %other = load i16, ptr %follow
{_park("%mask", "%taken", "%there", "%other")}
{_jump("@emu_dispatch")}
}}
"""

_INDEXED = f"""
; words: the place of a register, the number of edges, the place of the block of each
define i32 @emu_indexed{_HEAD}
{_word(0, "%offset")}
{_word(1, "%count", "i32")}
  %last = sub i32 %count, 1
  %register = getelementptr i8, ptr %w, i64 %offset
  br label %lane
lane:
  %left = phi i32 [ %mask, %entry ], [ %left.next, %lane ]
  %number = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %index.at = getelementptr i32, ptr %register, i32 %number
  %index = load i32, ptr %index.at
  %within = call i32 @llvm.umin.i32(i32 %index, i32 %last)
  %entry.number = add i32 %within, 2
  %entry.at = getelementptr i64, ptr %code, i32 %entry.number
  %place = load i16, ptr %entry.at
  %place.at = getelementptr i16, ptr %w, i32 %number
  store i16 %place, ptr %place.at
  %minus = sub i32 %left, 1
  %left.next = and i32 %left, %minus
  %more = icmp ne i32 %left.next, 0
  br i1 %more, label %lane, label %done
done:
{_jump("@emu_dispatch")}
}}

declare i32 @llvm.umin.i32(i32, i32)
"""

_LEAVE = f"""
; the lanes end
define i32 @emu_leave{_HEAD}
{_fewer("%mask")}
{_park("%mask", "%mask", str(LEFT - 0x10000), str(LEFT - 0x10000))}
{_jump("@emu_dispatch")}
}}

; words: a predicate, the edge of the lanes for which it does not hold; the others end
define i32 @emu_leave_some{_HEAD}
{_TAKEN}
  %follow = getelementptr i64, ptr %code, i64 2
  %none = icmp eq i32 %taken, 0
  br i1 %none, label %past, label %some
past:
{_jump("@emu_edge", "%follow", of="%a")}
some:
{_fewer("%taken")}
  %other = load i16, ptr %follow
{_park("%mask", "%taken", str(LEFT - 0x10000), "%other")}
{_jump("@emu_dispatch")}
}}
"""

_WAIT = f"""
; lanes %taken wait at a barrier, and go on at %resume
define internal void @emu_held(ptr %c, ptr %w, i32 %taken, i64 %site, i16 %resume) nounwind {{
  call void @emu_barrier(ptr %c, ptr %w, i32 %taken, i64 %site)
  %lanes = bitcast i32 %taken to <{LANES} x i1>
  %resume.1 = insertelement {_PLACES} poison, i16 %resume, i64 0
  %new = shufflevector {_PLACES} %resume.1, {_PLACES} poison, <{LANES} x i32> zeroinitializer
  %at = getelementptr i8, ptr %w, i64 {WARP["resume"]}
  %old = load {_PLACES}, ptr %at, align 64
  %all = select <{LANES} x i1> %lanes, {_PLACES} %new, {_PLACES} %old
  store {_PLACES} %all, ptr %at, align 64
{_fewer("%taken")}
  ret void
}}

; words: the number of the barrier among the accesses, the place behind it
define i32 @emu_wait{_HEAD}
{_word(0, "%site")}
{_word(1, "%resume", "i16")}
  call void @emu_held(ptr %c, ptr %w, i32 %mask, i64 %site, i16 %resume)
{_park("%mask", "%mask", str(WAITING - 0x10000), str(WAITING - 0x10000))}
{_jump("@emu_dispatch")}
}}

; words: a predicate, the edge of the lanes for which it does not hold, the number of the barrier; the others wait
define i32 @emu_wait_some{_HEAD}
{_TAKEN}
  %follow = getelementptr i64, ptr %code, i64 2
{_word(2 + EDGE, "%site")}
  %other = load i16, ptr %follow
  %none = icmp eq i32 %taken, 0
  br i1 %none, label %past, label %some
past:
  call void @emu_barrier(ptr %c, ptr %w, i32 %taken, i64 %site)
{_jump("@emu_edge", "%follow", of="%a")}
some:
  call void @emu_held(ptr %c, ptr %w, i32 %taken, i64 %site, i16 %other)
{_park("%mask", "%taken", str(WAITING - 0x10000), "%other")}
{_jump("@emu_dispatch")}
}}
"""

_TRAP = f"""
; word 0: the number of the trap among the accesses
define i32 @emu_trapped{_HEAD}
{_word(0, "%site")}
  call void @emu_trap(ptr %c, ptr %w, i32 %mask, i64 %site, i64 {TRAP})
{_jump("@emu_leave")}
}}
"""

_STOP = f"""
; words: the place of the block, the line that begins here: a debugger may stop
define i32 @emu_stop{_HEAD}
{_word(0, "%place")}
{_word(1, "%line")}
  %stops = call i1 @emu_step(ptr %c, ptr %w, i32 %mask, i64 %place, i64 %line)
  br i1 %stops, label %pause, label %proceed
pause:
  %here = trunc i64 %place to i16
{_park("%mask", "%mask", "%here", "%here")}
  ret i32 {PAUSED}
proceed:
{go_on(2)}
}}
"""
