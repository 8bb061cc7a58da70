"""LLVM text of the PTX opcodes that reach beyond a lane's registers: memory, atomics, the lanes of the warp, calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.compiler import types
from engine.compiler.emit_warp32_handler import Place
from engine.compiler.emit_warp32_ops import RULES, SCALARS, TRUTH, Form, rule
from engine.compiler.emit_warp32_runtime import ATOMS, access_name, atom_name
from engine.compiler.ptx_parser import SIZES, Address, Group, Imm, Operand, Symbol
from engine.compiler.types import Scalar
from engine.compiler.warp_layout import GENERIC, GLOBAL, LANES

if TYPE_CHECKING:
    from engine.compiler.emit_warp32_handler import Handler

_CACHING = "ca cg cs cv lu wb wt nc L1 L2"
_ORDER = "weak relaxed acquire release acq_rel seq_cst volatile cta cluster gpu sys mmio"
_ATOMIC = {"relaxed", "acquire", "release", "volatile", "mmio"}  # accesses that do not race with atomics
_VECTORS = "v2 v4 v8"
_PLACES = "global shared local const param shared::cta"
_WORD = types.uint32


def space_of(f: Form) -> str:
    """The state space that an access names, or "generic"."""
    for mark in f.marks:
        if mark in ("global", "shared", "local", "const", "param"):
            return mark
        if mark == "shared::cta":
            return "shared"
    return "generic"


def _elements(f: Form, operand: Operand) -> tuple[Operand, ...]:
    count = next((int(mark[1:]) for mark in f.marks if mark in ("v2", "v4", "v8")), 1)
    items = operand.items if isinstance(operand, Group) else (operand,)
    if len(items) != count:
        raise f.refuse(f"has {len(items)} elements where its suffix says {count}")
    return items


def _address(f: Form, place: int) -> Address:
    operand = f.operand(place)
    if not isinstance(operand, Address):
        raise f.refuse("needs an address in brackets")
    return operand


class Access:
    """One access to memory, with the addresses of all lanes stored where the runtime's functions read them."""

    def __init__(self, e: Handler, f: Form, address: Address, what: str, size: int, count: int = 1):
        self.e, self.space, self.size = e, space_of(f), size
        base = address.base
        if self.space == "param":
            self.space = "generic"  # addresses in the parameters are absolute ones
        self.family = self.space if self.space in ("shared", "local") else "memory"
        if what != "atomic" and not _ATOMIC.isdisjoint(f.marks):
            what = f"atomic {what}"
        self.site = e.site(what, self.space, size * count, count)
        self.unaligned = size * count - 1
        e.lines.append(f"  store {e.type(types.uint64)} {e.address(f, base, self.space)}, ptr %at, align 64")
        self.word = address.offset  # the number of the word that has it

    def offset(self, place: int) -> str:
        return self.e.value(f"add i64 {self.e.word(self.word)}, {place * self.size}")

    def call(self, what: str, scalar: Scalar, place: int, values: str) -> None:
        e = self.e
        unaligned = self.unaligned if place == 0 else self.size - 1
        space = GENERIC if self.space == "generic" else GLOBAL
        name = access_name(what, self.family, scalar.bits)
        e.call(name, f"i32 {e.active()}", "ptr %at", f"i64 {self.offset(place)}", f"ptr {values}", f"i64 {self.site}",
               f"i64 {unaligned}", f"i32 {space}")  # fmt: skip

    def load(self, scalar: Scalar, place: int) -> str:
        self.call("load", scalar, place, "%out")
        return self.e.value(f"load {self.e.bits_type(scalar.bits)}, ptr %out, align 64")

    def store(self, scalar: Scalar, place: int, value: str) -> None:
        self.e.lines.append(f"  store {self.e.bits_type(scalar.bits)} {value}, ptr %in, align 64")
        self.call("store", scalar, place, "%in")


@rule("ld ldu", f"{_PLACES} {_CACHING} {_ORDER} {_VECTORS} param::entry unified")
def _load(e: Handler, f: Form) -> None:
    t, address = f.t, _address(f, 1)
    items = _elements(f, f.d)
    size = SIZES[f.kind]
    raw = SCALARS[f"b{8 * size}"]
    if space_of(f) == "param" and isinstance(address.base, Place):
        for place, item in enumerate(items):
            offset = e.value(f"add i64 {e.word(address.offset)}, {place * size}")
            e.put(item, e.parameter(address.base, offset, raw), _as_loaded(t))
        return
    access = Access(e, f, address, "load", size, len(items))
    for place, item in enumerate(items):
        e.put(item, access.load(raw, place), _as_loaded(t))


def _as_loaded(t: Scalar) -> Scalar:
    """How loaded bits widen into a larger register: signed ones by their sign, all others by zeros."""
    return t if t.kind == "i" else {8: types.uint8, 16: types.uint16, 32: types.uint32, 64: types.uint64}[t.bits]


@rule("st", f"{_PLACES} {_CACHING} {_ORDER} {_VECTORS}")
def _store(e: Handler, f: Form) -> None:
    address = _address(f, 0)
    items = _elements(f, f.operand(1))
    size = SIZES[f.kind]
    raw = SCALARS[f"b{8 * size}"]
    if space_of(f) == "param":  # arguments of calls are no memory (see `emit_warp32`)
        raise f.refuse()
    access = Access(e, f, address, "store", size, len(items))
    for place, item in enumerate(items):
        access.store(raw, place, e.get(item, raw))


@rule("atom red", f"{_PLACES} {_ORDER} noftz {' '.join(ATOMS)}")
def _atom(e: Handler, f: Form) -> None:
    op = next((mark for mark in f.marks if mark in ATOMS), "")
    kind = f.kind
    if op in ("and", "or", "xor", "exch", "cas") or not op:
        kind = "b" + kind[1:]
    if op not in ATOMS or kind not in ATOMS[op]:
        raise f.refuse()
    raw = SCALARS["b" + kind.lstrip("busf")]
    first = 0 if f.name == "red" else 1
    access = Access(e, f, _address(f, first), "atomic", raw.bits // 8)
    if access.family == "local":
        raise f.refuse()
    lt = e.bits_type(raw.bits)
    for place, where in ((1, "%in"), (2, "%in2")):
        if place == 1 or op == "cas":
            e.lines.append(f"  store {lt} {e.get(f.operand(first + place), raw)}, ptr {where}, align 64")
    space = GENERIC if access.space == "generic" else GLOBAL
    name = atom_name(op, kind, access.family)
    e.call(name, f"i32 {e.active()}", "ptr %at", f"i64 {access.offset(0)}", "ptr %in", "ptr %in2", "ptr %out",
           f"i64 {access.site}", f"i32 {space}")  # fmt: skip
    if f.name == "atom":
        e.put(f.d, e.value(f"load {lt}, ptr %out, align 64"), raw)


@rule("cp", f"async ca cg shared global commit_group wait_group wait_all {_PLACES}", "b")
def _copy_async(e: Handler, f: Form) -> None:
    """Copies at once; the groups that would be waited for are then always empty."""
    if not {"commit_group", "wait_group", "wait_all"}.isdisjoint(f.marks):
        return
    size = f.operand(2)
    if not isinstance(size, Imm) or len(f.source.operands) > 3:
        raise f.refuse()
    to, source = _address(f, 0), _address(f, 1)
    # four-byte parts: `Access` reads the space from the form, so each side gets a form of its own
    reading = Form(f.source, f.name, ("global",), (_WORD,), ("b32",))
    writing = Form(f.source, f.name, ("shared",), (_WORD,), ("b32",))
    loads = Access(e, reading, source, "load", 4, size.value // 4)
    values = [loads.load(_WORD, place) for place in range(size.value // 4)]
    stores = Access(e, writing, to, "store", 4, size.value // 4)
    for place, value in enumerate(values):
        stores.store(_WORD, place, value)


@rule("cvta", f"to {_PLACES}", "u")
def _cvta(e: Handler, f: Form) -> None:
    t, space = types.uint64, space_of(f)
    lt = e.type(t)
    if f.t.bits != 64:
        raise f.refuse()
    value = e.get(f.operand(1), t)
    if space in ("shared", "local"):
        window = e.window(space)
        value = e.value(f"{'sub' if 'to' in f.marks else 'add'} {lt} {value}, {window}")
    e.put(f.d, value, t)


@rule("isspacep", _PLACES, "")
def _isspacep(e: Handler, f: Form) -> None:
    lt, value = e.type(types.uint64), e.get(f.operand(1), types.uint64)
    space = space_of(f)

    def inside(window: str) -> str:
        offset = e.value(f"sub {lt} {value}, {e.window(window)}")
        return e.value(f"icmp ult {lt} {offset}, {e.context_splat(f'{window}_size', types.uint64)}")

    if space in ("shared", "local"):
        result = inside(space)
    else:
        both = e.value(f"or {TRUTH} {inside('shared')}, {inside('local')}")
        result = e.value(f"xor {TRUTH} {both}, splat (i1 true)")
    e.put(f.d, result, types.bool_)


@rule("membar fence", "cta gl sys acq_rel sc gpu cluster acquire release proxy async alias")
def _fence(e: Handler, f: Form) -> None:
    """Lanes and blocks run in one order that all of them see."""


@rule("nanosleep prefetch prefetchu brkpt pmevent discard applypriority", f"{_PLACES} L1 L2 evict_normal mask", "ub")
def _nothing(e: Handler, f: Form) -> None:
    """Changes nothing that a program can see."""


# the other lanes of the warp


def _lanes_constant(values: list[int]) -> str:
    return f"<{', '.join(f'i32 {v}' for v in values)}>"


_LANE_NUMBERS = _lanes_constant(list(range(LANES)))


@rule("shfl", "sync up down bfly idx", "b")
def _shuffle(e: Handler, f: Form) -> None:
    word = e.type(_WORD)
    value, b, c = (e.get(f.operand(k), _WORD) for k in (1, 2, 3))
    by = e.value(f"and {word} {b}, {e.number(_WORD, 31)}")
    clamp = e.value(f"and {word} {c}, {e.number(_WORD, 31)}")
    segment = e.value(f"and {word} {e.value(f'lshr {word} {c}, {e.number(_WORD, 8)}')}, {e.number(_WORD, 31)}")
    free = e.value(f"xor {word} {segment}, splat (i32 -1)")
    least = e.value(f"and {word} {_LANE_NUMBERS}, {segment}")
    most = e.value(f"or {word} {least}, {e.value(f'and {word} {clamp}, {free}')}")
    mode = next((mark for mark in f.marks if mark != "sync"), "")
    if mode == "up":
        source, test = e.value(f"sub {word} {_LANE_NUMBERS}, {by}"), "sge"
    elif mode == "down":
        source, test = e.value(f"add {word} {_LANE_NUMBERS}, {by}"), "sle"
    elif mode == "bfly":
        source, test = e.value(f"xor {word} {_LANE_NUMBERS}, {by}"), "sle"
    elif mode == "idx":
        source, test = e.value(f"or {word} {least}, {e.value(f'and {word} {by}, {free}')}"), "sle"
    else:
        raise f.refuse("needs a mode")
    there = e.value(f"icmp {test} {word} {source}, {most}")
    chosen = e.value(f"select {TRUTH} {there}, {word} {source}, {word} {_LANE_NUMBERS}")
    e.lines.append(f"  store {word} {value}, ptr %in, align 64")
    e.lines.append(f"  store {word} {chosen}, ptr %in2, align 64")
    e.call("emu_permute", "ptr %in", "ptr %in2", "ptr %out")
    destinations = f.d.items if isinstance(f.d, Group) else (f.d,)
    e.put(destinations[0], e.value(f"load {word}, ptr %out, align 64"), _WORD)
    if len(destinations) > 1:
        e.put(destinations[1], there, types.bool_)


@rule("vote", "sync all any uni ballot", "pb")
def _vote(e: Handler, f: Form) -> None:
    votes = e.mask_of(e.get(f.operand(1), types.bool_))
    active = e.active()
    yes = e.value(f"and i32 {votes}, {active}")
    if "ballot" in f.marks:
        e.put(f.d, e.splat("i32", yes), _WORD)
        return
    every = e.value(f"icmp eq i32 {yes}, {active}")
    some = e.value(f"icmp ne i32 {yes}, 0")
    if "all" in f.marks:
        result = every
    elif "any" in f.marks:
        result = some
    else:
        result = e.value(f"or i1 {every}, {e.value(f'xor i1 {some}, true')}")
    e.put(f.d, e.splat("i1", result), types.bool_)


@rule("activemask", "", "b")
def _activemask(e: Handler, f: Form) -> None:
    e.put(f.d, e.splat("i32", e.active()), _WORD)


@rule("match", "sync any all", "b")
def _match(e: Handler, f: Form) -> None:
    t = f.t
    wide = e.get(f.operand(1), t)
    if t.bits == 32:
        wide = e.value(f"zext {e.type(t)} {wide} to {e.type(types.uint64)}")
    e.lines.append(f"  store {e.type(types.uint64)} {wide}, ptr %at, align 64")
    e.call("emu_match", f"i32 {e.active()}", "ptr %at", "ptr %out")
    equal = e.value(f"load {e.type(_WORD)}, ptr %out, align 64")
    destinations = f.d.items if isinstance(f.d, Group) else (f.d,)
    if "all" in f.marks:
        every = e.value(f"icmp eq {e.type(_WORD)} {equal}, {e.splat('i32', e.active())}")
        equal = e.value(f"select {TRUTH} {every}, {e.type(_WORD)} {equal}, {e.type(_WORD)} zeroinitializer")
        if len(destinations) > 1:
            e.put(destinations[1], every, types.bool_)
    e.put(destinations[0], equal, _WORD)


_NEUTRAL = {"add": 0, "or": 0, "xor": 0, "and": -1}


@rule("redux", "sync add min max and or xor", "sub")
def _redux(e: Handler, f: Form) -> None:
    t, lt = f.t, e.type(f.t)
    op = next(mark for mark in f.marks if mark != "sync")
    neutral = _NEUTRAL.get(op, t.range[1] if op == "min" else t.range[0])
    value = e.get(f.operand(1), t)
    filled = e.value(f"select {TRUTH} {e.active_lanes()}, {lt} {value}, {lt} {e.number(t, neutral)}")
    name = f"{'s' if t.kind == 'i' else 'u'}{op}" if op in ("min", "max") else op
    result = e.intrinsic(f"llvm.vector.reduce.{name}.v{LANES}i32", "i32", f"{lt} {filled}")
    e.put(f.d, e.splat("i32", result), t)


@rule("elect", "sync", "")
def _elect(e: Handler, f: Form) -> None:
    leader = e.intrinsic("llvm.cttz.i32", "i32", f"i32 {e.active()}", "i1 true")
    is_leader = e.value(f"icmp eq {e.type(_WORD)} {_LANE_NUMBERS}, {e.splat('i32', leader)}")
    destinations = f.d.items if isinstance(f.d, Group) else (f.d,)
    e.put(destinations[0], e.splat("i32", leader), _WORD)
    if len(destinations) > 1:
        e.put(destinations[1], is_leader, types.bool_)


@rule("bar barrier", "warp sync cta aligned arrive red", "b")
def _warp_barrier(e: Handler, f: Form) -> None:
    """`bar.warp.sync`: the lanes of a warp run together as it is. A block's barrier ends a basic block instead."""
    if "warp" not in f.marks:
        raise f.refuse()


# calls


@rule("call", "uni", "")
def _call(e: Handler, f: Form) -> None:
    """Calls a function that every driver has: its name, and its arguments."""
    name, arguments = f.operand(0), f.operand(1)
    assert isinstance(name, Symbol) and isinstance(arguments, Group)
    if name.name not in _FUNCTIONS:
        raise f.refuse(f"calls '{name.name}', and calls are not supported")
    if len(arguments.items) != 2:
        raise f.refuse(f"passes {len(arguments.items)} arguments to '{name.name}', which takes 2")
    _FUNCTIONS[name.name](e, *arguments.items)


def _print(e: Handler, text: Operand, values: Operand) -> None:
    for given, where in ((text, "%at"), (values, "%in")):
        e.lines.append(f"  store {e.type(types.uint64)} {e.get(given, types.uint64)}, ptr {where}, align 64")
    e.call("emu_print", f"i32 {e.active()}", "ptr %at", "ptr %in")


def _set_condition(e: Handler, handle: Operand, value: Operand) -> None:
    """Sets a condition of a graph: its handle is the address of the value (`emulator.graphs`)."""
    e.lines.append(f"  store {e.type(types.uint64)} {e.get(handle, types.uint64)}, ptr %at, align 64")
    e.lines.append(f"  store {e.bits_type(32)} {e.get(value, _WORD)}, ptr %in, align 64")
    site = e.site("store", "global", 4)
    e.call(access_name("store", "memory", 32), f"i32 {e.active()}", "ptr %at", "i64 0", "ptr %in", f"i64 {site}",
           "i64 3", f"i32 {GLOBAL}")  # fmt: skip


_FUNCTIONS = {"vprintf": _print, "cudaGraphSetConditional": _set_condition}


for _name in ("bra", "brx", "ret", "exit", "trap"):  # `emit_warp32` ends blocks with these; they have a form, too
    RULES[_name] = (_nothing, frozenset(("uni", "idx")), "")
