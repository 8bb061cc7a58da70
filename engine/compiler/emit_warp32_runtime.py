"""LLVM text of what all emulated kernels share: memory accesses that check themselves, atomics, talk between lanes.

A kernel's own code calls `emu_load_…`, `emu_store_…`, `emu_atom_…` with the addresses of 32 lanes and the mask of those
that take part. Every access is checked against the table of allocations: `sites` remembers for each access of the text
which allocation it hit last, so that the check is two comparisons of vectors as long as it keeps to that one. A lane
that fails the check takes no part; the first failure is kept, and the launch ends at the next loop or return.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from engine.compiler.emit_warp32_flow import HANDLERS, flow_handlers
from engine.compiler.emit_warp32_order import field, order_of_warps
from engine.compiler.emit_warp32_schedules import PICKS, schedules
from engine.compiler.warp_layout import CONTEXT, GENERIC, ILLEGAL_ADDRESS, LANES, LOG_RECORD, MISALIGNED, WARP

ADDRESSES = f"<{LANES} x i64>"
SPACES = ("memory", "shared", "local")
WIDTHS = (8, 16, 32, 64)
PRINT_RECORD = 8 + 256  # the format's address, and its arguments


def access_name(what: str, space: str, bits: int) -> str:
    """`emu_load_shared_32`: the function for an access."""
    return f"emu_{what}_{space}_{bits}"


def runtime() -> tuple[str, list[str]]:
    """The LLVM module and the names of the functions in it."""
    parts = [_RESOLVE, *map(_check, SPACES), _OTHERS, *map(_keep, WIDTHS)]
    parts += [order_of_warps(), schedules(), flow_handlers()]
    names = ["emu_grid", "emu_permute", "emu_match", "emu_print", *(f"emu_keep_{bits}" for bits in WIDTHS),
             *PICKS.values(), *HANDLERS]  # fmt: skip
    for what, space, bits in itertools.product(("load", "store"), SPACES, WIDTHS):
        parts.append(_access(what, space, bits))
        names.append(access_name(what, space, bits))
    for name, text in _atoms():
        parts.append(text)
        names.append(name)
    return "\n".join(parts), names


def _keep(bits: int) -> str:
    """Writes a register for some lanes."""
    kind = f"<{LANES} x i{bits}>"
    return f"""
define void @emu_keep_{bits}(ptr %c, ptr %w, i32 %mask, ptr %at, ptr %value) nounwind {{
  %new = load {kind}, ptr %value, align 64
  %lanes = bitcast i32 %mask to <{LANES} x i1>
  %old = load {kind}, ptr %at, align 64
  %kept = select <{LANES} x i1> %lanes, {kind} %new, {kind} %old
  store {kind} %kept, ptr %at, align 64
  ret void
}}
"""


def _splat(value: str, into: str) -> str:
    every = f"{ADDRESSES} poison, <{LANES} x i32> zeroinitializer"
    return (f"  {into}.1 = insertelement {ADDRESSES} poison, i64 {value}, i64 0\n"
            f"  {into} = shufflevector {ADDRESSES} {into}.1, {every}")  # fmt: skip


def _steps(size: int) -> str:
    return f"<{', '.join(f'i64 {lane * size}' for lane in range(LANES))}>"


_FAULT = f"""
define internal void @emu_fault(ptr %c, ptr %w, i64 %kind, i64 %address, i64 %lane, i64 %site, i64 %size) noinline {{
{field("fault", "%had")}
{field("collect", "%collect")}
  %none = icmp eq i64 %had, 0
  %counts = icmp eq i64 %collect, 0
  %access = icmp ne i64 %size, 0
  %kept = and i1 %access, %counts
  %other = icmp eq i64 %size, 0
  %stops = or i1 %kept, %other
  %first = and i1 %none, %stops
  br i1 %first, label %keep, label %done
keep:
  store i64 %kind, ptr %had.at
{{stores}}
  %index.at = getelementptr i8, ptr %w, i64 {WARP["index"]}
  %index = load i32, ptr %index.at
  %warp = zext i32 %index to i64
  %warp.at = getelementptr i8, ptr %c, i64 {CONTEXT["fault_warp"]}
  store i64 %warp, ptr %warp.at
{field("block", "%block")}
  %where.at = getelementptr i8, ptr %c, i64 {CONTEXT["fault_block"]}
  store i64 %block, ptr %where.at
  %stop.at = getelementptr i8, ptr %c, i64 {CONTEXT["stop"]}
  store i64 0, ptr %stop.at
  br label %done
done:
  ret void
}}
""".replace(
    "{stores}",
    "\n".join(
        f"  %{name}.at = getelementptr i8, ptr %c, i64 {CONTEXT['fault_' + name]}\n  store i64 %{name}, ptr %{name}.at"
        for name in ("address", "lane", "site", "size")
    ),
)

_LOG = f"""
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; keeps a record: site, %mask, %taken, block, warp, epoch, addresses; %hook empties the buffer when it is full
define internal void @emu_log(ptr %c, ptr %w, i32 %mask, i32 %taken, ptr %places, i64 %site) noinline nounwind {{
{field("log_used", "%used.before")}
{field("log_size", "%size")}
  %end.before = add i64 %used.before, {LOG_RECORD}
  %fits = icmp ule i64 %end.before, %size
  br i1 %fits, label %write, label %full
full:
{field("hook", "%hook", "ptr")}
  call void %hook()
  br label %write
write:
{field("log", "%buffer", "ptr")}
  %used = load i64, ptr %used.before.at
  %end = add i64 %used, {LOG_RECORD}
  store i64 %end, ptr %used.before.at
  %to = getelementptr i8, ptr %buffer, i64 %used
  store i64 %site, ptr %to
  %mask.at = getelementptr i8, ptr %to, i64 8
  store i32 %mask, ptr %mask.at
  %taken.at = getelementptr i8, ptr %to, i64 12
  store i32 %taken, ptr %taken.at
{field("block", "%block")}
  %block.to = getelementptr i8, ptr %to, i64 16
  store i64 %block, ptr %block.to
  %index.at = getelementptr i8, ptr %w, i64 {WARP["index"]}
  %index = load i32, ptr %index.at
  %warp.to = getelementptr i8, ptr %to, i64 24
  store i32 %index, ptr %warp.to
{field("epoch", "%epoch")}
  %epoch.32 = trunc i64 %epoch to i32
  %epoch.to = getelementptr i8, ptr %to, i64 28
  store i32 %epoch.32, ptr %epoch.to
  %addresses.to = getelementptr i8, ptr %to, i64 32
  call void @llvm.memcpy.p0.p0.i64(ptr %addresses.to, ptr %places, i64 {8 * LANES}, i1 false)
  ret void
}}

; lanes of %mask come to a barrier; a record tells which others of the warp are elsewhere
define void @emu_barrier(ptr %c, ptr %w, i32 %mask, i64 %site) nounwind {{
{field("log", "%buffer", "ptr")}
  %has.log = icmp ne ptr %buffer, null
  br i1 %has.log, label %look, label %done
look:
  %can = call i32 @emu_runnable(ptr %w)
  %not = xor i32 %mask, -1
  %others = and i32 %can, %not
  %some = icmp ne i32 %others, 0
  br i1 %some, label %note, label %done
note:
  %nowhere = alloca {ADDRESSES}, align 64
  store {ADDRESSES} zeroinitializer, ptr %nowhere, align 64
  call void @emu_log(ptr %c, ptr %w, i32 %mask, i32 %others, ptr %nowhere, i64 %site)
  br label %done
done:
  ret void
}}
"""


# Which lanes of %mask may access %size bytes at their absolute addresses; the first that may not is the fault.
_RESOLVE = _FAULT + _LOG + f"""
declare i32 @llvm.cttz.i32(i32, i1)

define internal i1 @emu_inside(i64 %address, i64 %size, i64 %from, i64 %length) alwaysinline {{
  %offset = sub i64 %address, %from
  %fits = icmp ule i64 %size, %length
  %last = sub i64 %length, %size
  %in = icmp ule i64 %offset, %last
  %both = and i1 %fits, %in
  ret i1 %both
}}

define internal i32 @emu_resolve(ptr %c, ptr %w, i32 %mask, ptr %addresses, i64 %size, i64 %site, i64 %unaligned,
                                 i32 %space) noinline {{
entry:
{field("table", "%table", "ptr")}
{field("table_count", "%count")}
{field("sites", "%sites", "ptr")}
  %site.2 = shl i64 %site, 1
  %cache = getelementptr i64, ptr %sites, i64 %site.2
  %cache.room = getelementptr i64, ptr %cache, i64 1
  br label %loop
loop:
  %left = phi i32 [ %mask, %entry ], [ %left.next, %next ]
  %good = phi i32 [ 0, %entry ], [ %good.next, %next ]
  %some = icmp ne i32 %left, 0
  br i1 %some, label %lane, label %done
lane:
  %number = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %wide = zext i32 %number to i64
  %address.at = getelementptr i64, ptr %addresses, i64 %wide
  %address = load i64, ptr %address.at
  br label %search
search:
  %low = phi i64 [ 0, %lane ], [ %low.next, %halve ]
  %n = phi i64 [ %count, %lane ], [ %n.next, %halve ]
  %more = icmp ne i64 %n, 0
  br i1 %more, label %halve, label %found
halve:
  %half = lshr i64 %n, 1
  %middle = add i64 %low, %half
  %middle.2 = shl i64 %middle, 1
  %begin.at = getelementptr i64, ptr %table, i64 %middle.2
  %begin = load i64, ptr %begin.at
  %right = icmp ule i64 %begin, %address
  %above = add i64 %middle, 1
  %rest = sub i64 %n, %half
  %rest.1 = sub i64 %rest, 1
  %low.next = select i1 %right, i64 %above, i64 %low
  %n.next = select i1 %right, i64 %rest.1, i64 %half
  br label %search
found:
  %none = icmp eq i64 %low, 0
  br i1 %none, label %miss, label %candidate
candidate:
  %entry.i = sub i64 %low, 1
  %entry.2 = shl i64 %entry.i, 1
  %from.at = getelementptr i64, ptr %table, i64 %entry.2
  %from = load i64, ptr %from.at
  %end.at = getelementptr i64, ptr %from.at, i64 1
  %end = load i64, ptr %end.at
  %length = sub i64 %end, %from
  %in = call i1 @emu_inside(i64 %address, i64 %size, i64 %from, i64 %length)
  br i1 %in, label %remember, label %miss
remember:
  %length.1 = add i64 %length, 1
  %room = sub i64 %length.1, %size
  store i64 %from, ptr %cache
  store i64 %room, ptr %cache.room
  br label %aligned
miss:
  %generic = icmp eq i32 %space, {GENERIC}
  br i1 %generic, label %windows, label %illegal
windows:
{field("shared", "%shared")}
{field("shared_size", "%shared.size")}
{field("params", "%params")}
{field("params_size", "%params.size")}
{field("local_size", "%local.size")}
{field("local_stride", "%local.stride")}
  %local.at = getelementptr i8, ptr %w, i64 {WARP["local"]}
  %local.0 = load i64, ptr %local.at
  %local.offset = mul i64 %wide, %local.stride
  %local = add i64 %local.0, %local.offset
  %in.shared = call i1 @emu_inside(i64 %address, i64 %size, i64 %shared, i64 %shared.size)
  %in.params = call i1 @emu_inside(i64 %address, i64 %size, i64 %params, i64 %params.size)
  %in.local = call i1 @emu_inside(i64 %address, i64 %size, i64 %local, i64 %local.size)
  %in.two = or i1 %in.shared, %in.params
  %in.any = or i1 %in.two, %in.local
  br i1 %in.any, label %aligned, label %illegal
illegal:
  call void @emu_fault(ptr %c, ptr %w, i64 {ILLEGAL_ADDRESS}, i64 %address, i64 %wide, i64 %site, i64 %size)
  br label %next
aligned:
  %odd = and i64 %address, %unaligned
  %even = icmp eq i64 %odd, 0
  br i1 %even, label %accept, label %misaligned
misaligned:
  call void @emu_fault(ptr %c, ptr %w, i64 {MISALIGNED}, i64 %address, i64 %wide, i64 %site, i64 %size)
  br label %next
accept:
  %bit = shl i32 1, %number
  %with = or i32 %good, %bit
  br label %next
next:
  %good.next = phi i32 [ %good, %illegal ], [ %good, %misaligned ], [ %with, %accept ]
  %minus = sub i32 %left, 1
  %left.next = and i32 %left, %minus
  br label %loop
done:
  ret i32 %good
}}

; the same for an offset into a window of %length bytes, whose absolute addresses are given for the report
define internal i32 @emu_bounded(ptr %c, ptr %w, i32 %mask, ptr %offsets, i64 %length, i64 %size, i64 %site,
                                 i64 %unaligned) noinline {{
entry:
  br label %loop
loop:
  %left = phi i32 [ %mask, %entry ], [ %left.next, %next ]
  %good = phi i32 [ 0, %entry ], [ %good.next, %next ]
  %some = icmp ne i32 %left, 0
  br i1 %some, label %lane, label %done
lane:
  %number = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %wide = zext i32 %number to i64
  %offset.at = getelementptr i64, ptr %offsets, i64 %wide
  %offset = load i64, ptr %offset.at
  %in = call i1 @emu_inside(i64 %offset, i64 %size, i64 0, i64 %length)
  %odd = and i64 %offset, %unaligned
  %even = icmp eq i64 %odd, 0
  %fine = and i1 %in, %even
  br i1 %fine, label %accept, label %refuse
refuse:
  %kind = select i1 %in, i64 {MISALIGNED}, i64 {ILLEGAL_ADDRESS}
  call void @emu_fault(ptr %c, ptr %w, i64 %kind, i64 %offset, i64 %wide, i64 %site, i64 %size)
  br label %next
accept:
  %bit = shl i32 1, %number
  %with = or i32 %good, %bit
  br label %next
next:
  %good.next = phi i32 [ %good, %refuse ], [ %with, %accept ]
  %minus = sub i32 %left, 1
  %left.next = and i32 %left, %minus
  br label %loop
done:
  ret i32 %good
}}
"""


def _bounds(space: str) -> str:
    """%from and %room of the vector check, and %base: what makes an address of what the lane gave."""
    if space == "memory":
        return f"""{field("sites", "%sites", "ptr")}
  %site.2 = shl i64 %site, 1
  %cache = getelementptr i64, ptr %sites, i64 %site.2
  %from = load i64, ptr %cache
  %cache.room = getelementptr i64, ptr %cache, i64 1
  %room = load i64, ptr %cache.room"""
    return f"""{field(f"{space}_size", "%length")}
  %length.1 = add i64 %length, 1
  %room.open = sub i64 %length.1, %bytes
  %fits = icmp uge i64 %length, %bytes
  %room = select i1 %fits, i64 %room.open, i64 0
  %from = add i64 0, 0"""


def _absolute(space: str) -> str:
    """%there: absolute addresses of the offsets %given."""
    if space == "memory":
        return f"  %there = add {ADDRESSES} %given, zeroinitializer"
    if space == "shared":
        return f"{field('shared', '%base')}\n{_splat('%base', '%bases')}\n  %there = add {ADDRESSES} %given, %bases"
    return f"""  %base.at = getelementptr i8, ptr %w, i64 {WARP["local"]}
  %base = load i64, ptr %base.at
{field("local_stride", "%stride")}
{_splat("%base", "%bases")}
{_splat("%stride", "%strides")}
  %own = mul {ADDRESSES} %strides, {_steps(1)}
  %lanes = add {ADDRESSES} %bases, %own
  %there = add {ADDRESSES} %given, %lanes"""


def _check(space: str) -> str:
    """`emu_check_<space>`: absolute addresses to %places; returns the lanes that pass, and 1 << 32 for a straight line.

    A straight line is 32 lanes that access 32 neighbours in order. Everything that is wide stands here once: on a
    machine with short vectors, the code of 32 64-bit addresses is long.
    """
    if space == "memory":
        refuse = ("call i32 @emu_resolve(ptr %c, ptr %w, i32 %mask, ptr %places, i64 %bytes, i64 %site, "
                  "i64 %unaligned, i32 %space)")  # fmt: skip
    else:
        refuse = ("call i32 @emu_bounded(ptr %c, ptr %w, i32 %mask, ptr %places, i64 %length, i64 %bytes, i64 %site, "
                  "i64 %unaligned)")  # fmt: skip
    return f"""
define internal i64 @emu_check_{space}(ptr %c, ptr %w, i32 %mask, ptr %at, i64 %offset, ptr %places, i64 %log,
                                       i64 %site, i64 %unaligned, i32 %space) noinline nounwind {{
entry:
  %bytes = shl i64 1, %log
  %raw = load {ADDRESSES}, ptr %at, align 64
{_splat("%offset", "%offsets")}
  %given = add {ADDRESSES} %raw, %offsets
{_bounds(space)}
{_splat("%from", "%froms")}
{_splat("%room", "%rooms")}
{_splat("%unaligned", "%loose")}
  %relative = sub {ADDRESSES} %given, %froms
  %in = icmp ult {ADDRESSES} %relative, %rooms
  %odd = and {ADDRESSES} %given, %loose
  %even = icmp eq {ADDRESSES} %odd, zeroinitializer
  %fine = and <{LANES} x i1> %in, %even
  %fine.bits = bitcast <{LANES} x i1> %fine to i32
  %fine.not = xor i32 %fine.bits, -1
  %bad = and i32 %fine.not, %mask
  %all = icmp eq i32 %bad, 0
  br i1 %all, label %checked, label %look
look:
  store {ADDRESSES} %given, ptr %places, align 64
  %passed = {refuse}
  br label %checked
checked:
  %taken = phi i32 [ %mask, %entry ], [ %passed, %look ]
{_absolute(space)}
  store {ADDRESSES} %there, ptr %places, align 64
  %first = extractelement {ADDRESSES} %there, i64 0
{_splat("%first", "%firsts")}
{_splat("%log", "%logs")}
  %steps = shl {ADDRESSES} {_steps(1)}, %logs
  %straight = add {ADDRESSES} %firsts, %steps
  %same = icmp eq {ADDRESSES} %there, %straight
  %same.bits = bitcast <{LANES} x i1> %same to i32
  %line.bits = and i32 %same.bits, %taken
  %is.line = icmp eq i32 %line.bits, -1
  %line = zext i1 %is.line to i64
  %line.32 = shl i64 %line, 32
  %taken.wide = zext i32 %taken to i64
  %result = or i64 %line.32, %taken.wide
{field("log", "%log.buffer", "ptr")}
  %has.log = icmp ne ptr %log.buffer, null
  br i1 %has.log, label %note, label %finish
note:
  call void @emu_log(ptr %c, ptr %w, i32 %mask, i32 %taken, ptr %places, i64 %site)
  br label %finish
finish:
  ret i64 %result
}}
"""


def _checked(space: str, log: int) -> str:
    """%result of the check, %taken, and the absolute addresses at %places."""
    return f"""  %places = alloca {ADDRESSES}, align 64
  %result = call i64 @emu_check_{space}(ptr %c, ptr %w, i32 %mask, ptr %at, i64 %offset, ptr %places, i64 {log},
                                        i64 %site, i64 %unaligned, i32 %space)
  %taken = trunc i64 %result to i32"""


def _access(what: str, space: str, bits: int) -> str:
    size, vector = bits // 8, f"<{LANES} x i{bits}>"
    if what == "load":
        line = f"  %line = load {vector}, ptr %p, align {size}\n  store {vector} %line, ptr %values, align 64"
        clear = f"  store {vector} zeroinitializer, ptr %values, align 64"
        move = f"  %value = load i{bits}, ptr %q, align 1\n  store i{bits} %value, ptr %value.at"
    else:
        line = f"  %line = load {vector}, ptr %values, align 64\n  store {vector} %line, ptr %p, align {size}"
        clear = ""
        move = f"  %value = load i{bits}, ptr %value.at\n  store i{bits} %value, ptr %q, align 1"
    return f"""
define void @{access_name(what, space, bits)}(ptr %c, ptr %w, i32 %mask, ptr %at, i64 %offset, ptr %values, i64 %site,
                                              i64 %unaligned, i32 %space) nounwind {{
entry:
{_checked(space, size.bit_length() - 1)}
  %is.line = icmp uge i64 %result, {1 << 32}
  br i1 %is.line, label %whole, label %apart
whole:
  %first = load i64, ptr %places
  %p = inttoptr i64 %first to ptr
{line}
  ret void
apart:
{clear}
  %some = icmp ne i32 %taken, 0
  br i1 %some, label %lane, label %done
lane:
  %left = phi i32 [ %taken, %apart ], [ %left.next, %lane ]
{_LANE}
  %value.at = getelementptr i{bits}, ptr %values, i64 %wide
{move}
{_NEXT_LANE}
done:
  ret void
}}
"""


# the lowest lane of %left: %wide its number, %q its address; and the way to the next one
_LANE = """  %number = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %wide = zext i32 %number to i64
  %place.at = getelementptr i64, ptr %places, i64 %wide
  %place = load i64, ptr %place.at
  %q = inttoptr i64 %place to ptr"""
_NEXT_LANE = """  %minus = sub i32 %left, 1
  %left.next = and i32 %left, %minus
  %more = icmp ne i32 %left.next, 0
  br i1 %more, label %lane, label %done"""


# atomics: the new value as a function of the old one and the operands %b (and %d)

_WRAPPED = {
    "inc": ("%over = icmp uge {t} %a, %b", "%up = add {t} %a, 1", "%new = select i1 %over, {t} 0, {t} %up"),
    "dec": ("%zero = icmp eq {t} %a, 0", "%high = icmp ugt {t} %a, %b", "%wrap = or i1 %zero, %high",
            "%down = sub {t} %a, 1", "%new = select i1 %wrap, {t} %b, {t} %down"),
    "cas": ("%equal = icmp eq {t} %a, %b", "%new = select i1 %equal, {t} %d, {t} %a"),
    "exch": ("%new = add {t} %b, 0",),
}  # fmt: skip
_REAL = {32: "float", 64: "double", 16: "half"}

ATOMS = {
    "add": ("u32", "s32", "u64", "s64", "f32", "f64", "f16"), "and": ("b32", "b64"), "or": ("b32", "b64"),
    "xor": ("b32", "b64"), "exch": ("b32", "b64"), "cas": ("b16", "b32", "b64"),
    "min": ("u32", "s32", "u64", "s64"), "max": ("u32", "s32", "u64", "s64"), "inc": ("u32",), "dec": ("u32",),
}  # fmt: skip


def atom_name(op: str, kind: str, space: str) -> str:
    return f"emu_atom_{op}_{kind}_{space}"


def _new_value(op: str, kind: str) -> Iterator[str]:
    bits = int(kind.lstrip("busf"))
    t = f"i{bits}"
    if op in _WRAPPED:
        yield from (line.format(t=t) for line in _WRAPPED[op])
    elif kind[0] == "f":
        real = _REAL[bits]
        yield f"%fa = bitcast {t} %a to {real}"
        yield f"%fb = bitcast {t} %b to {real}"
        if bits == 16:
            yield "%wa = fpext half %fa to float"
            yield "%wb = fpext half %fb to float"
            yield "%wide.sum = fadd float %wa, %wb"
            yield "%sum = fptrunc float %wide.sum to half"
        else:
            yield f"%sum = fadd {real} %fa, %fb"
        yield f"%new = bitcast {real} %sum to {t}"
    elif op in ("min", "max"):
        yield f"%less = icmp {kind[0].replace('b', 'u')}lt {t} %a, %b"
        yield f"%new = select i1 %less, {t} {'%a, ' if op == 'min' else '%b, '}{t} {'%b' if op == 'min' else '%a'}"
    else:
        yield f"%new = {op} {t} %a, %b"


def _atoms() -> Iterator[tuple[str, str]]:
    for op, kinds in ATOMS.items():
        for kind, space in itertools.product(kinds, SPACES[:2]):
            name = atom_name(op, kind, space)
            yield name, _atom(name, op, kind, space)


def _atom(name: str, op: str, kind: str, space: str) -> str:
    bits = int(kind.lstrip("busf"))
    size = bits // 8
    new = "\n".join(f"  {line}" for line in _new_value(op, kind))
    return f"""
define void @{name}(ptr %c, ptr %w, i32 %mask, ptr %at, i64 %offset, ptr %bs, ptr %ds, ptr %olds, i64 %site,
                    i32 %space) nounwind {{
entry:
  %unaligned = add i64 {size - 1}, 0
{_checked(space, size.bit_length() - 1)}
  store <{LANES} x i{bits}> zeroinitializer, ptr %olds, align 64
  %some = icmp ne i32 %taken, 0
  br i1 %some, label %lane, label %done
lane:
  %left = phi i32 [ %taken, %entry ], [ %left.next, %lane ]
{_LANE}
  %b.at = getelementptr i{bits}, ptr %bs, i64 %wide
  %b = load i{bits}, ptr %b.at
  %d.at = getelementptr i{bits}, ptr %ds, i64 %wide
  %d = load i{bits}, ptr %d.at
  %a = load i{bits}, ptr %q, align {size}
{new}
  store i{bits} %new, ptr %q, align {size}
  %old.at = getelementptr i{bits}, ptr %olds, i64 %wide
  store i{bits} %a, ptr %old.at
{_NEXT_LANE}
done:
  ret void
}}
"""


_OTHERS = f"""
define void @emu_permute(ptr %c, ptr %w, ptr %values, ptr %lanes, ptr %out) nounwind {{
entry:
  br label %lane
lane:
  %i = phi i64 [ 0, %entry ], [ %i.next, %lane ]
  %from.at = getelementptr i32, ptr %lanes, i64 %i
  %from.raw = load i32, ptr %from.at
  %from = and i32 %from.raw, {LANES - 1}
  %value.at = getelementptr i32, ptr %values, i32 %from
  %value = load i32, ptr %value.at
  %to.at = getelementptr i32, ptr %out, i64 %i
  store i32 %value, ptr %to.at
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, {LANES}
  br i1 %more, label %lane, label %done
done:
  ret void
}}

; for each lane of the mask: which lanes of the mask have the same value
define void @emu_match(ptr %c, ptr %w, i32 %mask, ptr %values, ptr %out) nounwind {{
entry:
  %all = load {ADDRESSES}, ptr %values, align 64
  br label %lane
lane:
  %i = phi i64 [ 0, %entry ], [ %i.next, %lane ]
  %value.at = getelementptr i64, ptr %values, i64 %i
  %value = load i64, ptr %value.at
{_splat("%value", "%values.i")}
  %same = icmp eq {ADDRESSES} %all, %values.i
  %bits = bitcast <{LANES} x i1> %same to i32
  %of.mask = and i32 %bits, %mask
  %to.at = getelementptr i32, ptr %out, i64 %i
  store i32 %of.mask, ptr %to.at
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, {LANES}
  br i1 %more, label %lane, label %done
done:
  ret void
}}

define void @emu_trap(ptr %c, ptr %w, i32 %mask, i64 %site, i64 %kind) nounwind {{
  %lane = call i32 @llvm.cttz.i32(i32 %mask, i1 false)
  %wide = zext i32 %lane to i64
  call void @emu_fault(ptr %c, ptr %w, i64 %kind, i64 0, i64 %wide, i64 %site, i64 0)
  ret void
}}

; a record for each lane: address of the format, PRINT_BYTES of its arguments, which lie in the lane's local memory
define void @emu_print(ptr %c, ptr %w, i32 %mask, ptr %formats, ptr %arguments) nounwind {{
entry:
{field("printed", "%buffer", "ptr")}
{field("printed_size", "%size")}
{field("local_size", "%local.size")}
{field("local_stride", "%stride")}
  %base.at = getelementptr i8, ptr %w, i64 {WARP["local"]}
  %base = load i64, ptr %base.at
  br label %lane
lane:
  %left = phi i32 [ %mask, %entry ], [ %left.next, %next ]
  %some = icmp ne i32 %left, 0
  br i1 %some, label %record, label %done
record:
  %number = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %wide = zext i32 %number to i64
{field("printed_used", "%used")}
  %end = add i64 %used, {PRINT_RECORD}
  store i64 %end, ptr %used.at
  %fits = icmp ule i64 %end, %size
  br i1 %fits, label %write, label %next
write:
  %to = getelementptr i8, ptr %buffer, i64 %used
  %format.at = getelementptr i64, ptr %formats, i64 %wide
  %format = load i64, ptr %format.at
  store i64 %format, ptr %to
  %argument.at = getelementptr i64, ptr %arguments, i64 %wide
  %argument = load i64, ptr %argument.at
  %own.offset = mul i64 %wide, %stride
  %own = add i64 %base, %own.offset
  %offset = sub i64 %argument, %own
  %inside = icmp ule i64 %offset, %local.size
  br i1 %inside, label %copy, label %next
copy:
  %room = sub i64 %local.size, %offset
  %short = icmp ult i64 %room, {PRINT_RECORD - 8}
  %bytes = select i1 %short, i64 %room, i64 {PRINT_RECORD - 8}
  %into = getelementptr i8, ptr %to, i64 8
  %source = inttoptr i64 %argument to ptr
  call void @llvm.memcpy.p0.p0.i64(ptr %into, ptr %source, i64 %bytes, i1 false)
  br label %next
next:
  %minus = sub i32 %left, 1
  %left.next = and i32 %left, %minus
  br label %lane
done:
  ret void
}}
"""
