"""LLVM text of the order in which things run: the lanes of a warp, the warps of a block, the blocks of a grid.

`emu_grid` runs blocks one after the other, and the warps of a block in turn: until they end, wait at a barrier, or have
run `quantum` instructions. A barrier opens when no warp of the block can run. Within a warp, `emu_pick` chooses the
block of code that runs next, and its lanes.
"""

from __future__ import annotations

from engine.compiler.warp_layout import AT_BARRIER, CONTEXT, ENDED, ENDLESS, LANES, PAUSED, WAITING, WARP


def field(name: str, into: str, kind: str = "i64") -> str:
    """Lines that load a field of the context %c; `into`.at is its address."""
    return (
        f"  {into}.at = getelementptr i8, ptr %c, i64 {CONTEXT[name]}\n  {into} = load {kind}, ptr {into}.at, align 8"
    )


def order_of_warps() -> str:
    """The functions; they call `emu_fault` of the same module."""
    return _CONTROL + _GRID


_PCS = f"<{LANES} x i16>"

# where the lanes of a warp go on, and which of them run next
_CONTROL = f"""
define i32 @emu_runnable(ptr %w) nounwind {{
  %places = load {_PCS}, ptr %w, align 64
  %can = icmp ult {_PCS} %places, splat (i16 {WAITING - 0x10000})
  %bits = bitcast <{LANES} x i1> %can to i32
  ret i32 %bits
}}

; the lanes of %mask wait for block %next if they are in %taken, else for %other
define void @emu_part(ptr %w, i32 %mask, i32 %taken, i16 %next, i16 %other) nounwind {{
  %lanes = bitcast i32 %mask to <{LANES} x i1>
  %there = bitcast i32 %taken to <{LANES} x i1>
  %a.1 = insertelement {_PCS} poison, i16 %next, i64 0
  %a = shufflevector {_PCS} %a.1, {_PCS} poison, <{LANES} x i32> zeroinitializer
  %b.1 = insertelement {_PCS} poison, i16 %other, i64 0
  %b = shufflevector {_PCS} %b.1, {_PCS} poison, <{LANES} x i32> zeroinitializer
  %new = select <{LANES} x i1> %there, {_PCS} %a, {_PCS} %b
  %old = load {_PCS}, ptr %w, align 64
  %all = select <{LANES} x i1> %lanes, {_PCS} %new, {_PCS} %old
  store {_PCS} %all, ptr %w, align 64
  ret void
}}

declare i16 @llvm.vector.reduce.umin.v{LANES}i16({_PCS})
declare i16 @llvm.vector.reduce.umax.v{LANES}i16({_PCS})

; the block to run, and its lanes from bit 16 on; or the complement of what the code returns
define i64 @emu_pick(ptr %c, ptr %w) nounwind {{
  %places = load {_PCS}, ptr %w, align 64
  %runnable = icmp ult {_PCS} %places, splat (i16 {WAITING - 0x10000})
  %runnable.bits = bitcast <{LANES} x i1> %runnable to i32
  %any = icmp ne i32 %runnable.bits, 0
  br i1 %any, label %time, label %rest
time:
{field("warp_instructions", "%spent")}
{field("stop", "%stop")}
  %early = icmp ult i64 %spent, %stop
  br i1 %early, label %pick, label %pause
pick:
  %high.at = getelementptr i8, ptr %w, i64 {WARP["high"]}
  %high = load i32, ptr %high.at
  %is.high = icmp ne i32 %high, 0
  br i1 %is.high, label %last, label %first
last:
  store i32 0, ptr %high.at
  %candidates = select <{LANES} x i1> %runnable, {_PCS} %places, {_PCS} zeroinitializer
  %highest = call i16 @llvm.vector.reduce.umax.v{LANES}i16({_PCS} %candidates)
  br label %go
first:
  %lowest = call i16 @llvm.vector.reduce.umin.v{LANES}i16({_PCS} %places)
  br label %go
go:
  %chosen = phi i16 [ %highest, %last ], [ %lowest, %first ]
  %chosen.1 = insertelement {_PCS} poison, i16 %chosen, i64 0
  %chosen.s = shufflevector {_PCS} %chosen.1, {_PCS} poison, <{LANES} x i32> zeroinitializer
  %here = icmp eq {_PCS} %places, %chosen.s
  %here.bits = bitcast <{LANES} x i1> %here to i32
  %mask = zext i32 %here.bits to i64
  %mask.16 = shl i64 %mask, 16
  %place = zext i16 %chosen to i64
  %result = or i64 %mask.16, %place
  ret i64 %result
rest:
  %waits = icmp eq {_PCS} %places, splat (i16 {WAITING - 0x10000})
  %waits.bits = bitcast <{LANES} x i1> %waits to i32
  %some = icmp ne i32 %waits.bits, 0
  %state = select i1 %some, i64 {~AT_BARRIER}, i64 {~ENDED}
  ret i64 %state
pause:
  ret i64 {~PAUSED}
}}
"""

_GRID = f"""
; the next of the launch's random numbers (Marsaglia, Xorshift RNGs, 2003)
define i64 @emu_random(ptr %c) nounwind {{
{field("random", "%x")}
  %a = shl i64 %x, 13
  %b = xor i64 %x, %a
  %d = lshr i64 %b, 7
  %e = xor i64 %b, %d
  %f = shl i64 %e, 17
  %g = xor i64 %e, %f
  store i64 %g, ptr %x.at
  %h = mul i64 %g, 2685821657736338717
  %i = lshr i64 %h, 16
  %j = xor i64 %h, %i
  ret i64 %j
}}

define void @emu_grid(ptr %c, i64 %begin, i64 %end) nounwind {{
entry:
{field("grid_x", "%gx")}
{field("grid_y", "%gy")}
{field("warps", "%warps")}
{field("warp_area", "%area", "ptr")}
{field("warp_stride", "%stride")}
{field("quantum", "%quantum")}
{field("limit", "%limit")}
{field("order_step", "%order.step")}
{field("order_first", "%order.first")}
{field("random", "%random")}
  %by.chance = icmp ne i64 %random, 0
  %number.at = getelementptr i8, ptr %c, i64 {CONTEXT["number"]}
  %rotation.at = getelementptr i8, ptr %c, i64 {CONTEXT["rotation"]}
  %epoch.at = getelementptr i8, ptr %c, i64 {CONTEXT["epoch"]}
  %running.at = getelementptr i8, ptr %c, i64 {CONTEXT["running"]}
  %waiting.at = getelementptr i8, ptr %c, i64 {CONTEXT["waiting"]}
{field("turn", "%turn.saved")}
  %goes.on = icmp ne i64 %turn.saved, 0
  br i1 %goes.on, label %proceed, label %fresh
proceed:
  store i64 0, ptr %turn.saved.at
  %turn.again = sub i64 %turn.saved, 1
  %running.word = load i64, ptr %running.at
  %running.again = icmp ne i64 %running.word, 0
  %waiting.word = load i64, ptr %waiting.at
  %waiting.again = icmp ne i64 %waiting.word, 0
  br label %turn
fresh:
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %block, label %done
block:
  %place = phi i64 [ %begin, %fresh ], [ %place.next, %block.done ]
  store i64 %place, ptr %number.at
  %place.scaled = mul i64 %place, %order.step
  %place.moved = add i64 %place.scaled, %order.first
  %number = urem i64 %place.moved, %end
  %x = urem i64 %number, %gx
  %rest = udiv i64 %number, %gx
  %y = urem i64 %rest, %gy
  %z = udiv i64 %rest, %gy
{
    chr(10).join(
        f'''  %to.{f} = getelementptr i8, ptr %c, i64 {CONTEXT[f]}
  store i64 %{v}, ptr %to.{f}'''
        for f, v in (("block", "number"), ("ctaid_x", "x"), ("ctaid_y", "y"), ("ctaid_z", "z"))
    )
}
  store i64 0, ptr %epoch.at
  br label %init
init:
  %i = phi i64 [ 0, %block ], [ %i.next, %init ]
  %i.offset = mul i64 %i, %stride
  %i.warp = getelementptr i8, ptr %area, i64 %i.offset
  %start.at = getelementptr i8, ptr %i.warp, i64 {WARP["start"]}
  %start = load {_PCS}, ptr %start.at, align 64
  store {_PCS} %start, ptr %i.warp, align 64
  %i.status = getelementptr i8, ptr %i.warp, i64 {WARP["status"]}
  store i32 {PAUSED}, ptr %i.status
  %i.high = getelementptr i8, ptr %i.warp, i64 {WARP["high"]}
  store i32 0, ptr %i.high
  %i.depth = getelementptr i8, ptr %i.warp, i64 {WARP["depth"]}
  store i32 0, ptr %i.depth
  %i.stop = getelementptr i8, ptr %i.warp, i64 {WARP["last_stop"]}
  store i64 0, ptr %i.stop
  %i.stack = getelementptr i8, ptr %i.warp, i64 {WARP["stack"]}
  store i64 -1, ptr %i.stack
  %i.next = add i64 %i, 1
  %i.more = icmp slt i64 %i.next, %warps
  br i1 %i.more, label %init, label %round
round:
  br i1 %by.chance, label %rotate, label %turns
rotate:
  %dice = call i64 @emu_random(ptr %c)
  %rotated = urem i64 %dice, %warps
  store i64 %rotated, ptr %rotation.at
  br label %turns
turns:
  br label %turn
turn:
  %j = phi i64 [ 0, %turns ], [ %j.next, %turn.next ], [ %turn.again, %proceed ]
  %running = phi i1 [ false, %turns ], [ %running.next, %turn.next ], [ %running.again, %proceed ]
  %waiting = phi i1 [ false, %turns ], [ %waiting.next, %turn.next ], [ %waiting.again, %proceed ]
  %rotation = load i64, ptr %rotation.at
  %j.sum = add i64 %j, %rotation
  %j.warp = urem i64 %j.sum, %warps
  %j.offset = mul i64 %j.warp, %stride
  %w = getelementptr i8, ptr %area, i64 %j.offset
  %status.at = getelementptr i8, ptr %w, i64 {WARP["status"]}
  %before = load i32, ptr %status.at
  %can = icmp eq i32 %before, {PAUSED}
  br i1 %can, label %run, label %kept
run:
{field("warp_instructions", "%done.so.far")}
  br i1 %by.chance, label %short, label %long
short:
  %length.dice = call i64 @emu_random(ptr %c)
  %length.some = and i64 %length.dice, 255
  %length = add i64 %length.some, 1
  br label %long
long:
  %turn.length = phi i64 [ %quantum, %run ], [ %length, %short ]
  %later = add i64 %done.so.far, %turn.length
  %soon = icmp ult i64 %later, %limit
  %stop = select i1 %soon, i64 %later, i64 %limit
  %stop.at = getelementptr i8, ptr %c, i64 {CONTEXT["stop"]}
  store i64 %stop, ptr %stop.at
  %after = call i32 @emu_enter(ptr %c, ptr %w)
  store i32 %after, ptr %status.at
{field("fault", "%fault")}
  %faulted = icmp ne i64 %fault, 0
  br i1 %faulted, label %stopped, label %counted
stopped:
  %turn.now = add i64 %j, 1
  store i64 %turn.now, ptr %turn.saved.at
  %running.save = zext i1 %running to i64
  store i64 %running.save, ptr %running.at
  %waiting.save = zext i1 %waiting to i64
  store i64 %waiting.save, ptr %waiting.at
  br label %done
counted:
  %paused = icmp eq i32 %after, {PAUSED}
  br i1 %paused, label %limited, label %kept
limited:
{field("warp_instructions", "%spent")}
  %over = icmp uge i64 %spent, %limit
  br i1 %over, label %endless, label %again
endless:
  call void @emu_fault(ptr %c, ptr %w, i64 {ENDLESS}, i64 0, i64 0, i64 -1, i64 0)
  br label %done
again:
  %high.at = getelementptr i8, ptr %w, i64 {WARP["high"]}
  store i32 1, ptr %high.at
  br label %kept
kept:
  %now = phi i32 [ %before, %turn ], [ %after, %counted ], [ %after, %again ]
  %is.running = icmp eq i32 %now, {PAUSED}
  %is.waiting = icmp eq i32 %now, {AT_BARRIER}
  %running.next = or i1 %running, %is.running
  %waiting.next = or i1 %waiting, %is.waiting
  br label %turn.next
turn.next:
  %j.next = add i64 %j, 1
  %j.more = icmp slt i64 %j.next, %warps
  br i1 %j.more, label %turn, label %round.done
round.done:
  br i1 %running.next, label %round, label %open
open:
  br i1 %waiting.next, label %pass, label %block.done
pass:
  %epoch = load i64, ptr %epoch.at
  %epoch.next = add i64 %epoch, 1
  store i64 %epoch.next, ptr %epoch.at
  br label %release
release:
  %k = phi i64 [ 0, %pass ], [ %k.next, %released ]
  %k.offset = mul i64 %k, %stride
  %k.warp = getelementptr i8, ptr %area, i64 %k.offset
  %k.status.at = getelementptr i8, ptr %k.warp, i64 {WARP["status"]}
  %k.status = load i32, ptr %k.status.at
  %k.waits = icmp eq i32 %k.status, {AT_BARRIER}
  br i1 %k.waits, label %wake, label %released
wake:
  %pcs = load {_PCS}, ptr %k.warp, align 64
  %resume.at = getelementptr i8, ptr %k.warp, i64 {WARP["resume"]}
  %resume = load {_PCS}, ptr %resume.at, align 64
  %held = icmp eq {_PCS} %pcs, splat (i16 {WAITING - 0x10000})
  %woken = select <{LANES} x i1> %held, {_PCS} %resume, {_PCS} %pcs
  store {_PCS} %woken, ptr %k.warp, align 64
  store i32 {PAUSED}, ptr %k.status.at
  br label %released
released:
  %k.next = add i64 %k, 1
  %k.more = icmp slt i64 %k.next, %warps
  br i1 %k.more, label %release, label %round
block.done:
  %place.last = load i64, ptr %number.at
  %place.next = add i64 %place.last, 1
  %more = icmp slt i64 %place.next, %end
  br i1 %more, label %block, label %done
done:
  ret void
}}
"""
