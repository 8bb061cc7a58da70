"""Runs a kernel on symbols: every check that checked mode would make becomes an obligation, every access is recorded.

The function is the HIR that `guard` leaves, whose `fault` ops stand where a check failed: an obligation is the path
that leads there, and it is proved when the path contradicts itself. Behind a check the path holds what was checked. A
loop runs once, for any iteration: variables that it changes are unknown there, but for the side on which they stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.compiler.audit import terms
from engine.compiler.audit.scalars import Scalars
from engine.compiler.audit.terms import FALSE, TRUE, Affine, Condition, both, either, negated, number, of
from engine.compiler.ir import Function, Location, Op, Region
from engine.compiler.types import Array, IndexedArray, LocalArray, Scalar, Struct, Table, Tuple, Type, components

LARGEST = 2**30  # of extents and launch dimensions, unless `wide`
WIDEST = 2**31 - 1
OBLIGATIONS = 4000  # of a kernel


@dataclass(frozen=True)
class Obligation:
    """Something that must not happen: the conditions that lead to it, and what it would be."""

    check: str  # "bounds", "division", "assert", "overflow"
    path: tuple[Condition, ...]
    what: str
    file: str
    line: int
    facts: str = ""  # the text of an assert
    inner: int = 0  # the line in the function that was called
    assumed: bool = False  # whether an assert is a contract, which is not to be proved
    needs: Condition = FALSE  # what has to hold there
    always: bool = False  # whether every thread gets there, unless a check failed before


@dataclass(frozen=True)
class Access:
    """One read or write of an array's element."""

    kind: str  # "load", "store", "atomic"
    array: str
    place: tuple[Affine, ...]
    part: tuple[int, int]  # first leaf and count, of the element
    path: tuple[Condition, ...]
    file: str
    line: int


@dataclass
class View:
    """An array: the parameter that it comes from, the indices taken so far, the extents that are left.

    `exact` is false where elements cannot be told by these indices any more (slices, arrays from memory).
    """

    name: str
    taken: tuple[Affine, ...]
    extents: list[Affine]
    exact: bool = True


@dataclass
class State:
    """What holds at a point of the program: the path to it and the values of the variables."""

    path: list[Condition]
    slots: dict[Op, Any]
    always: bool = True  # whether every thread gets here, unless a check failed before

    def copy(self) -> State:
        return State(list(self.path), dict(self.slots), self.always)


@dataclass
class Frame:
    """A function that runs: where its returns and the ends of its loops are collected."""

    fn: Function
    values: dict[Op, Any]
    returns: list[tuple[State, Any]] = field(default_factory=list)
    breaks: list[list[State]] = field(default_factory=list)


class Executor(Scalars):
    """Runs one kernel; `obligations` and `accesses` are what came out."""

    def __init__(self, fn: Function, wide: bool = False):
        super().__init__()
        self.fn = fn
        self.largest = WIDEST if wide else LARGEST
        self.obligations: list[Obligation] = []
        self.accesses: list[Access] = []
        self.written: set[str] = _written(fn)
        self.threads: list[terms.Atom] = []  # this thread's position in the launch
        self.ndim = max((op.attrs["ndim"] for op in fn.body.walk() if op.kind == "tid"), default=1)
        self.together: str = ""  # an op that needs the threads of a block together
        self.line_of: list[Location] = []  # the kernel's own lines of the calls that are running
        frame = Frame(fn, {p: self.parameter(p) for p in fn.params})
        self.state = State([], {})
        self.run(frame, fn.body)

    # values

    def parameter(self, op: Op) -> Any:
        return self.named(str(op.attrs["name"]), op.type)

    def named(self, name: str, t: Type) -> Any:
        """A kernel argument, or a part of it."""
        if isinstance(t, Scalar):
            return self.named_scalar("argument", (name,), t)
        if isinstance(t, Array):
            return View(name, (), [self.extent(name, d) for d in range(t.ndim)])
        if isinstance(t, Struct):
            return [self.named(f"{name}.{part}", p) for part, p in t.fields]
        if isinstance(t, Tuple):
            return [self.named(f"{name}.{k}", p) for k, p in enumerate(t.items)]
        same = components(t)
        return [self.named_scalar("argument", (f"{name}[{k}]",), same[0]) for k in range(same[1])] if same else name

    def extent(self, name: str, dim: int) -> Affine:
        return of(self.atoms.make("extent", (name, dim), (0, self.largest), private=False))

    def anything(self, t: Type, what: str) -> Any:
        """A value of which nothing is known but the type."""
        if isinstance(t, Scalar):
            return self.unknown(t, what)
        if isinstance(t, Array):
            extents = [of(self.atoms.unknown(what, (0, self.largest))) for _ in range(t.ndim)]
            return View(what, (), extents, exact=False)
        if isinstance(t, Struct):
            return [self.anything(p, what) for _, p in t.fields]
        if isinstance(t, Tuple):
            return [self.anything(p, what) for p in t.items]
        same = components(t)
        return [self.unknown(same[0], what) for _ in range(same[1])] if same else None

    def loaded(self, name: str, place: tuple[Affine, ...], t: Type, path: tuple[Any, ...] = ()) -> Any:
        """The contents of an array that the kernel does not write: the same whenever it is read."""
        if isinstance(t, Scalar):
            return self.named_scalar("load", (name, place, path), t)
        if isinstance(t, Array):
            return self.anything(t, f"an array in {name}")
        if isinstance(t, Struct):
            return [self.loaded(name, place, p, (*path, n)) for n, p in t.fields]
        same = components(t)
        if same is None:
            return self.anything(t, name)
        return [self.named_scalar("load", (name, place, (*path, k)), same[0]) for k in range(same[1])]

    # running

    def run(self, frame: Frame, region: Region) -> bool:
        """Runs a region from `self.state`; whether its end is reached."""
        for op in region.ops:
            if FALSE in self.state.path or not self.step(frame, op):
                return False
        return True

    def step(self, frame: Frame, op: Op) -> bool:
        """Runs one op; whether the next one is reached."""
        control = getattr(self, f"do_{op.kind}", None)
        if control is not None:
            return bool(control(frame, op))
        args = [frame.values.get(v) for v in op.operands]
        made = getattr(self, f"get_{op.kind}", None)
        result = made(frame, op, args) if made is not None else self.elementwise(op, args)
        if result is None and op.type.__class__.__name__ != "Void":
            result = self.anything(op.type, op.kind)
        frame.values[op] = result
        return True

    def elementwise(self, op: Op, args: list[Any]) -> Any:
        """A primitive on scalars, or by component."""
        if isinstance(op.type, Scalar):
            kinds = [v.type for v in op.operands]
            return self.primitive(op.kind, op.type, kinds, args, self.state.path, self.line(op))
        same = components(op.type)
        if same is None or not all(isinstance(a, list) and len(a) == same[1] for a in args) or not args:
            return None
        kinds = [(components(v.type) or (same[0], 1))[0] for v in op.operands]
        return [self.primitive(op.kind, same[0], kinds, list(row), self.state.path, self.line(op))
                for row in zip(*args, strict=True)]  # fmt: skip

    def line(self, op: Op) -> int:
        loc = self.line_of[0] if self.line_of else op.loc
        return loc.line if loc else self.fn.line

    def do_if(self, frame: Frame, op: Op) -> bool:
        condition = frame.values[op.operands[0]]
        before, ends = self.state, []
        is_check = any(map(_only_faults, op.regions))
        for region, holds in zip(op.regions, (condition, negated(condition)), strict=True):
            self.state = before.copy()
            self.state.path.append(holds)
            self.state.always = before.always and is_check
            if holds != FALSE and self.run(frame, region):
                ends.append(self.state)
            elif holds == FALSE:
                continue
        if not ends:
            return False
        if len(ends) == 1:
            self.state = ends[0]
            self.state.always = before.always and (is_check or condition in (TRUE, FALSE))
        else:
            self.state = self.merged(condition, before, ends[0], ends[1])
        return True

    def merged(self, condition: Condition, before: State, a: State, b: State) -> State:
        """What holds behind an if that both ways leave."""
        kept = len(before.path)
        learnt = either(both(*a.path[kept:]), both(*b.path[kept:]))
        trivial = len(a.path) == len(b.path) == kept + 1
        path = [*before.path, *([] if trivial else [learnt])]
        slots = {s: self.choice(condition, s.type, a.slots[s], b.slots[s]) for s in a.slots if s in b.slots}
        return State(path, slots, before.always)

    def choice(self, condition: Condition, t: Type, a: Any, b: Any) -> Any:
        if a is b or a == b:
            return a
        if isinstance(t, Scalar):
            return self.choose(condition, t, a, b)
        parts = _parts(t)
        if parts and isinstance(a, list) and isinstance(b, list):
            return [self.choice(condition, p, x, y) for p, x, y in zip(parts, a, b, strict=True)]
        return self.anything(t, "if")

    def do_fault(self, frame: Frame, op: Op) -> bool:
        check = op.attrs["check"]
        here = self.line_of[0] if self.line_of else op.loc
        loc, file = here or Location(self.fn.line, 1), self.fn.file
        what = {
            "bounds": lambda: f"index {op.attrs.get('dim', 0)} of {op.attrs.get('array') or 'an array'} out of bounds",
            "division": lambda: "integer division by zero",
        }.get(check, lambda: str(op.attrs.get("text", check)))()
        inner = op.attrs.get("function", "")
        if self.line_of and op.loc:
            what += f" (in {inner}, line {op.loc.line})"
        if len(self.obligations) < OBLIGATIONS:
            path = tuple(self.state.path)
            inner_line = op.loc.line if op.loc else 0
            text = str(op.attrs.get("text", ""))
            assumed = bool(op.attrs.get("assumed"))
            needs = negated(path[-1]) if path else FALSE
            if check == "bounds":  # the last dimension has no condition of its own
                index, extent = (frame.values.get(v) for v in op.operands[:2])
                if isinstance(index, Affine) and isinstance(extent, Affine):
                    needs = both(terms.at_most(number(0), index), terms.below(index, extent))
            made = Obligation(check, path, what, loc.file or file, loc.line, text, inner_line, assumed, needs,
                              self.state.always)  # fmt: skip
            self.obligations.append(made)
            if check == "bounds":
                self.overflows(path, loc)
        return False

    def overflows(self, path: tuple[Condition, ...], loc: Location) -> None:
        """Index arithmetic of this access that might wrap, where ranges alone do not exclude it."""
        for atom in terms.atoms_of(path[-1]):
            line = self.wraps.get(atom)
            if line is None or line in self.reported_wraps:
                continue
            self.reported_wraps.add(line)
            exact, where = atom.args[0], atom.path
            beyond = either(terms.below(exact, number(atom.lo)), terms.below(number(atom.hi), exact))
            self.obligations.append(Obligation("overflow", (*where, beyond), "integer overflow of index arithmetic",
                                               loc.file or self.fn.file, line, needs=negated(beyond)))  # fmt: skip

    def do_for(self, frame: Frame, op: Op) -> bool:
        start, stop, by = (frame.values[v] for v in op.operands)
        index_op, t = op.regions[0].ops[0], op.operands[0].type
        assert isinstance(t, Scalar)
        index = of(self.atoms.unknown("index", t.range))
        facts: list[Condition] = []
        if by.is_const and by.const > 0:
            facts = [terms.at_most(start, index), terms.below(index, stop)]
        elif by.is_const and by.const < 0:
            facts = [terms.at_most(index, start), terms.below(stop, index)]
        if by.is_const and abs(by.const) > 1:
            turn = of(self.atoms.unknown("turn", (0, 2**32)))
            facts.append(terms.equal(index, start + turn.times(by.const)))
        frame.values[index_op] = index
        base = self.state
        self.forget(frame, op)
        self.state = self.state.copy()
        self.state.path += facts
        self.state.always = False
        frame.breaks.append([])
        self.run(frame, Region(op.regions[0].ops[1:]))
        frame.breaks.pop()
        self.state = base
        self.forget(frame, op)
        return True

    def do_while(self, frame: Frame, op: Op) -> bool:
        base = self.state
        self.forget(frame, op)
        self.state = self.state.copy()
        self.state.always = False
        frame.breaks.append([])
        if self.run(frame, op.regions[0]):
            self.state.path.append(frame.values[op.regions[0].ops[-1]])
            self.run(frame, op.regions[1])
        left_early = bool(frame.breaks.pop())
        self.state = base
        self.forget(frame, op)
        quiet = len(self.obligations), len(self.accesses)
        ended = self.run(frame, op.regions[0])
        del self.obligations[quiet[0] :], self.accesses[quiet[1] :]
        if not ended or left_early:
            self.state = base
            return True
        self.state.path.append(negated(frame.values[op.regions[0].ops[-1]]))
        return True

    def do_condition(self, frame: Frame, op: Op) -> bool:
        frame.values[op] = frame.values[op.operands[0]]
        return True

    def forget(self, frame: Frame, loop: Op) -> None:
        """Makes the variables that a loop changes unknown; those that only grow, or only shrink, keep their start as
        a bound."""
        sets: dict[Op, list[Op]] = {}
        for op in loop.regions[0].walk() if loop.kind == "for" else _walk(loop.regions):
            if op.kind == "set":
                sets.setdefault(op.operands[0], []).append(op.operands[1])
        self.state = self.state.copy()
        for slot, values in sets.items():
            before = self.state.slots.get(slot)
            if before is None:
                continue
            now = self.anything(slot.type, f"{slot.attrs.get('name', '')}")
            self.state.slots[slot] = now
            if isinstance(now, Affine) and isinstance(before, Affine):
                steps = [_step(v, slot) for v in values]
                if all(s is not None and s >= 0 for s in steps):
                    self.state.path.append(terms.at_most(before, now))
                if all(s is not None and s <= 0 for s in steps):
                    self.state.path.append(terms.at_most(now, before))

    def do_break(self, frame: Frame, op: Op) -> bool:
        frame.breaks[-1].append(self.state)
        return False

    def do_continue(self, frame: Frame, op: Op) -> bool:
        return False

    def do_return(self, frame: Frame, op: Op) -> bool:
        for breaks in frame.breaks:
            breaks.append(self.state)
        frame.returns.append((self.state, frame.values.get(op.operands[0]) if op.operands else None))
        return False

    def do_call(self, frame: Frame, op: Op) -> bool:
        callee: Function = op.attrs["callee"]
        inner = Frame(callee, dict(zip(callee.params, [frame.values.get(v) for v in op.operands], strict=True)))
        before = self.state
        self.line_of.append(op.loc or Location(self.fn.line, 1))
        self.state = before.copy()
        if self.run(inner, callee.body):
            inner.returns.append((self.state, None))
        self.line_of.pop()
        if not inner.returns:
            return False
        kept = len(before.path)
        state, value = inner.returns[-1]
        for other, its in reversed(inner.returns[:-1]):
            value = self.choice(both(*other.path[kept:]), callee.result, its, value)
        alone = len(inner.returns) == 1
        self.state = State(list(state.path) if alone else list(before.path), {**before.slots}, before.always)
        for slot in before.slots:
            if any(s.slots.get(slot) is not before.slots[slot] for s, _ in inner.returns):
                self.state.slots[slot] = self.anything(slot.type, "call")
        if value is None and op.type.__class__.__name__ != "Void":
            value = self.anything(op.type, callee.name)
        frame.values[op] = value
        return True

    # memory

    def get_slot(self, frame: Frame, op: Op, args: list[Any]) -> Any:
        self.state.slots[op] = self.anything(op.type, str(op.attrs.get("name", "")))
        return op

    def get_get(self, frame: Frame, op: Op, args: list[Any]) -> Any:
        slot = op.operands[0]
        if slot not in self.state.slots:
            self.state.slots[slot] = self.anything(slot.type, str(slot.attrs.get("name", "")))
        return self.state.slots[slot]

    def get_set(self, frame: Frame, op: Op, args: list[Any]) -> Any:
        self.state.slots[op.operands[0]] = args[1]

    def get_load(self, frame: Frame, op: Op, args: list[Any]) -> Any:
        view, place = args[0], tuple(args[1:])
        self.access("load", op, view, place, op.type)
        if isinstance(view, View) and view.exact and view.name not in self.written:
            return self.loaded(view.name, (*view.taken, *place), op.type)
        return None

    def get_store(self, frame: Frame, op: Op, args: list[Any]) -> Any:
        self.access("store", op, args[0], tuple(args[1:-1]), op.operands[-1].type)

    def get_atomic(self, frame: Frame, op: Op, args: list[Any]) -> Any:
        ndim = op.operands[0].type.ndim  # type: ignore[attr-defined]
        self.access("atomic", op, args[0], tuple(args[1 : 1 + ndim]), op.operands[1 + ndim].type)

    def access(self, kind: str, op: Op, view: Any, place: tuple[Affine, ...], t: Type) -> None:
        if not isinstance(view, View) or not view.exact or isinstance(op.operands[0].type, IndexedArray):
            return
        first = int(op.attrs.get("offset", 0))
        count = 10**6 if kind == "load" else _leaf_count(t)
        self.accesses.append(Access(kind, view.name, (*view.taken, *place), (first, count), tuple(self.state.path),
                                    self.fn.file, self.line(op)))  # fmt: skip

    def get_subarray(self, frame: Frame, op: Op, args: list[Any]) -> Any:
        view, lead = args[0], args[1:]
        if isinstance(view, View):
            return View(view.name, (*view.taken, *lead), view.extents[len(lead) :], view.exact)
        return None

    def get_view(self, frame: Frame, op: Op, args: list[Any]) -> Any:
        view, dims = args[0], op.attrs["dims"]
        if not isinstance(view, View):
            return None
        lead = len(dims) - len(dims.lstrip("i"))
        rest = args[1 + lead :]
        whole = "i" not in dims[lead:]
        extents: list[Affine] = []
        exact = view.exact and whole
        at = 0
        for kind in dims[lead:]:
            if kind == "i":
                at += 1
                continue
            start, count, step = rest[at : at + 3]
            d = lead + len(extents)
            full = d < len(view.extents) and count == view.extents[d] and start == number(0) and step == number(1)
            exact = exact and full
            extents.append(count)
            at += 3
        return View(view.name, (*view.taken, *args[1 : 1 + lead]), extents, exact)

    def get_field(self, frame: Frame, op: Op, args: list[Any]) -> Any:
        table = op.operands[0].type
        assert isinstance(table, Table)
        found = table.field(op.attrs["name"])
        assert found is not None
        ndim = op.type.ndim  # type: ignore[attr-defined]
        name = f"{args[0]}.{op.attrs['name']}"
        return View(name, (), [self.symbol(str(args[0]), found[1]), *[self.extent(name, d) for d in range(1, ndim)]])

    def symbol(self, table: str, symbol: str) -> Affine:
        return of(self.atoms.make("extent", (table, symbol), (0, self.largest), private=False))

    def get_count(self, frame: Frame, op: Op, args: list[Any]) -> Any:
        return self.symbol(str(args[0]), op.attrs["symbol"])

    def get_shape(self, frame: Frame, op: Op, args: list[Any]) -> Any:
        return args[0].extents[op.attrs["dim"]] if isinstance(args[0], View) else None

    def get_shadow(self, frame: Frame, op: Op, args: list[Any]) -> Any:
        return View(f"{args[0].name}.grad", args[0].taken, args[0].extents, args[0].exact)

    # threads and aggregates

    def get_tid(self, frame: Frame, op: Op, args: list[Any]) -> Any:
        axis = op.attrs["axis"]
        if op.attrs["ndim"] != self.ndim:  # a contract's index among all threads
            name = f"index of {op.attrs['ndim']}, {axis}"
            return of(self.atoms.make("thread", (name,), (0, WIDEST), private=True))
        dim = of(self.atoms.make("dim", (f"dim[{axis}]",), (1, self.largest), private=False))
        atom = self.atoms.make("thread", (f"thread[{axis}]",), (0, self.largest - 1), private=True)
        if atom not in self.threads:
            self.threads.append(atom)
        thread = of(atom)
        fact = terms.below(thread, dim)
        if fact not in self.state.path:
            self.state.path.append(fact)
        return thread

    def get_block_value(self, frame: Frame, op: Op, args: list[Any]) -> Any:
        self.together = op.attrs["name"]
        name = op.attrs["name"]
        private = name not in ("block_dim", "warp_lanes")
        hi = self.largest if name == "block_id" else 1024
        return of(self.atoms.make("thread", (name,), (1 if name == "block_dim" else 0, hi), private))

    def get_barrier(self, frame: Frame, op: Op, args: list[Any]) -> Any:
        self.together = "barrier"

    def get_const(self, frame: Frame, op: Op, args: list[Any]) -> Any:
        value, t = op.attrs["value"], op.type
        assert isinstance(t, Scalar)
        return (TRUE if value else FALSE) if t.kind == "b" else number(int(value)) if t.is_int else None

    def get_make(self, frame: Frame, op: Op, args: list[Any]) -> Any:
        return list(args)

    def get_position(self, frame: Frame, op: Op, args: list[Any]) -> Any:
        return None

    def get_extract(self, frame: Frame, op: Op, args: list[Any]) -> Any:
        return args[0][op.attrs["index"]] if isinstance(args[0], list) else None

    def get_insert(self, frame: Frame, op: Op, args: list[Any]) -> Any:
        if not isinstance(args[0], list):
            return None
        made = list(args[0])
        made[op.attrs["index"]] = args[1]
        return made

    def get_select(self, frame: Frame, op: Op, args: list[Any]) -> Any:
        return self.choice(args[0], op.type, args[1], args[2])

    def get_local(self, frame: Frame, op: Op, args: list[Any]) -> Any:
        if op.attrs.get("shared"):
            self.together = "shared array"
        return op

    def get_local_view(self, frame: Frame, op: Op, args: list[Any]) -> Any:
        t = op.operands[0].type
        assert isinstance(t, LocalArray)
        return View("local", (), [number(n) for n in t.shape], exact=False)


def _parts(t: Type) -> Sequence[Type]:
    if isinstance(t, Struct):
        return [p for _, p in t.fields]
    if isinstance(t, Tuple):
        return t.items
    same = components(t)
    return [same[0]] * same[1] if same else ()


def _only_faults(region: Region) -> bool:
    """Whether a region is what `guard` does where a check failed."""
    kinds = {op.kind for op in region.walk()}
    return "fault" in kinds and kinds <= {"fault", "cast", "const", "if"}


def _leaf_count(t: Type) -> int:
    same = components(t)
    return same[1] if same else 10**6


def _walk(regions: Iterable[Region]) -> Iterable[Op]:
    for region in regions:
        yield from region.walk()


def _step(value: Op, slot: Op) -> int | None:
    """By how much `value` differs from the variable, if it is the variable plus a constant."""
    if value.kind == "get" and value.operands[0] is slot:
        return 0
    if value.kind not in ("add", "sub"):
        return None
    a, b = value.operands
    if a.kind == "const" and value.kind == "add":
        a, b = b, a
    if a.kind == "get" and a.operands[0] is slot and b.kind == "const":
        return int(b.attrs["value"]) * (1 if value.kind == "add" else -1)
    return None


def _written(fn: Function) -> set[str]:
    """Names of the parameters of a kernel that it, or what it calls, writes; of a table, each field."""
    names: set[str] = set()

    def root(op: Op, bound: dict[Op, str]) -> str:
        if op in bound:
            return bound[op]
        if op.kind == "param":
            return str(op.attrs["name"])
        if op.kind == "field":
            return f"{root(op.operands[0], bound)}.{op.attrs['name']}"
        if op.kind == "extract" and isinstance(op.operands[0].type, Struct):
            return f"{root(op.operands[0], bound)}.{op.operands[0].type.fields[op.attrs['index']][0]}"
        return root(op.operands[0], bound) if op.operands else ""

    def visit(one: Function, bound: dict[Op, str]) -> None:
        for op in one.body.walk():
            if op.kind in ("store", "atomic"):
                names.add(root(op.operands[0], bound))
            elif op.kind == "call":
                callee = op.attrs["callee"]
                visit(callee, {p: root(v, bound) for p, v in zip(callee.params, op.operands, strict=True)})

    visit(fn, {})
    return names
