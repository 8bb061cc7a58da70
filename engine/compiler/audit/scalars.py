"""The primitives on symbols: integers are affine forms, truth values conditions, floats nothing at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.compiler.audit import terms
from engine.compiler.audit.terms import FALSE, TRUE, Affine, Atom, Atoms, Condition, both, either, negated, number, of
from engine.compiler.types import Scalar, Type

COMPARE = {
    "lt": lambda a, b: terms.below(a, b),
    "le": lambda a, b: terms.at_most(a, b),
    "gt": lambda a, b: terms.below(b, a),
    "ge": lambda a, b: terms.at_most(b, a),
    "eq": lambda a, b: terms.equal(a, b),
    "ne": lambda a, b: negated(terms.equal(a, b)),
}


class Wide:
    """An uint64 that is an affine form modulo 2⁶⁴: how a bounds check compares negative indices."""

    def __init__(self, exact: Affine):
        self.exact = exact


class Scalars:
    """Values of scalars, and what the primitives make of them."""

    def __init__(self) -> None:
        self.atoms = Atoms()
        self.wraps: dict[Atom, int] = {}  # signed values that may have wrapped: the line where
        self.reported_wraps: set[int] = set()

    def unknown(self, t: Scalar, what: str) -> Any:
        if t.is_float:
            return None
        if t.kind == "b":
            return terms.condition("is", self.atoms.unknown(what, (0, 1)), True)
        return of(self.atoms.unknown(what, t.range))

    def named_scalar(self, kind: str, args: tuple[Any, ...], t: Scalar) -> Any:
        if t.is_float:
            return None
        limits = (0, 1) if t.kind == "b" else t.range
        private = None if kind == "load" else False
        atom = self.atoms.make(kind, args, limits, private)
        return terms.condition("is", atom, True) if t.kind == "b" else of(atom)

    def choose(self, condition: Condition, t: Scalar, a: Any, b: Any) -> Any:
        """a where the condition holds, else b."""
        if condition in (TRUE, FALSE):
            return a if condition == TRUE else b
        if t.is_float or a is None or b is None:
            return self.unknown(t, "choice") if not t.is_float else None
        if t.kind == "b":
            return either(both(condition, a), both(negated(condition), b))
        a, b = self.plain(a, t), self.plain(b, t)
        (a_lo, a_hi), (b_lo, b_hi) = a.range, b.range
        return of(self.atoms.make("choice", (condition, a, b), (min(a_lo, b_lo), max(a_hi, b_hi))))

    def plain(self, value: Any, t: Scalar) -> Affine:
        """An integer as an affine form."""
        if isinstance(value, Wide):
            return value.exact if value.exact.fits(t.range) else of(self.atoms.unknown("uint64", t.range))
        return value if isinstance(value, Affine) else of(self.atoms.unknown("integer", t.range))

    def primitive(
        self, kind: str, t: Scalar, kinds: Sequence[Type], args: list[Any], path: list[Condition], line: int
    ) -> Any:
        """The result of an elementwise op or a cast; `path` is what is known where it stands."""
        source = kinds[0] if kinds else t
        if kind == "cast":
            return self.cast(t, source, args[0], path)
        if t.is_float:
            return None
        if kind in COMPARE:
            return self.compare(kind, source, args)
        if t.kind == "b":
            return self.logic(kind, args)
        if isinstance(source, Scalar) and (source.is_float or source.kind == "b"):
            return None
        if kind in ("add", "sub", "mul", "neg") and any(isinstance(a, Wide) for a in args):
            return self.wide(kind, t, args)
        return self.integer(kind, t, [self.plain(a, t) for a in args], path, line)

    def compare(self, kind: str, source: Type, args: list[Any]) -> Any:
        assert isinstance(source, Scalar)
        a, b = args
        if source.is_float or a is None or b is None:
            return terms.condition("is", self.atoms.unknown("float comparison", (0, 1)), True)
        if source.kind == "b":
            same = either(both(a, b), both(negated(a), negated(b)))
            return same if kind == "eq" else negated(same)
        if isinstance(a, Wide) or isinstance(b, Wide):
            x, y = (v.exact if isinstance(v, Wide) else v for v in (a, b))
            if kind == "lt" and x.fits((-(2**63), 2**64 - 1)) and y.fits((0, 2**63)):
                return both(terms.at_most(number(0), x), terms.below(x, y))
            a, b = self.plain(a, source), self.plain(b, source)
        return COMPARE[kind](a, b)

    def logic(self, kind: str, args: list[Any]) -> Any:
        if kind == "not":
            return negated(args[0])
        a, b = args
        return {"and": lambda: both(a, b), "or": lambda: either(a, b),
                "xor": lambda: either(both(a, negated(b)), both(negated(a), b))}[kind]()  # fmt: skip

    def cast(self, t: Scalar, source: Type, value: Any, path: list[Condition]) -> Any:
        assert isinstance(source, Scalar)
        if t.is_float or source.is_float or value is None:
            return None
        if source.kind == "b":
            if t.kind == "b":
                return value
            return self.choose(value, t, number(1), number(0))
        if t.kind == "b":
            return negated(terms.equal(self.plain(value, source), number(0)))
        if isinstance(value, Wide):
            return self.plain(value, t) if t.bits == 64 else None
        if value.fits(t.range):
            return value
        if t.kind == "u" and t.bits == 64:
            return Wide(value)
        return of(self.atoms.make("wrap", (value,), t.range, path=tuple(path)))

    def wide(self, kind: str, t: Scalar, args: list[Any]) -> Any:
        x, *rest = (v.exact if isinstance(v, Wide) else v for v in args)
        if kind == "neg" or None in (x, *rest):
            return None
        return Wide(x + rest[0]) if kind == "add" else Wide(x - rest[0]) if kind == "sub" else None

    def integer(self, kind: str, t: Scalar, args: list[Affine], path: list[Condition], line: int) -> Any:
        a = args[0]
        b = args[1] if len(args) > 1 else number(0)
        match kind:
            case "add":
                return self.wrapped(t, a + b, path, line)
            case "sub":
                return self.wrapped(t, a - b, path, line)
            case "neg":
                return self.wrapped(t, a.times(-1), path, line)
            case "mul":
                return self.wrapped(t, self.product(a, b), path, line)
            case "shl" if b.is_const and 0 <= b.const < t.bits:
                return self.wrapped(t, a.times(1 << b.const), path, line)
            case "shr" if b.is_const and 0 <= b.const < t.bits:
                return self.divided("floordiv", t, a, number(1 << b.const))
            case "div" | "floordiv" | "mod":
                return self.divided(kind, t, a, b)
            case "min" | "max" | "select_min" | "select_max":
                return self.extreme(kind.removeprefix("select_"), a, b)
            case "abs" if a.range[0] >= 0:
                return a
            case "abs":
                return self.wrapped(t, self.extreme("max", a, a.times(-1)), path, line)
            case "and":
                return self.masked(t, a, b)
        return None

    def wrapped(self, t: Scalar, exact: Affine, path: list[Condition], line: int) -> Affine:
        """The value that the machine computes."""
        if exact.fits(t.range):
            return exact
        if exact.is_const:
            lo, hi = t.range
            return number((exact.const - lo) % (hi - lo + 1) + lo)
        atom = self.atoms.make("wrap", (exact,), t.range, path=tuple(path))
        if t.kind == "i":
            self.wraps.setdefault(atom, line)
        return of(atom)

    def product(self, a: Affine, b: Affine) -> Affine:
        if a.is_const:
            return b.times(a.const)
        if b.is_const:
            return a.times(b.const)
        corners = [x * y for x in a.range for y in b.range]
        return of(self.atoms.make("mul", (a, b), (min(corners), max(corners))))

    def divided(self, kind: str, t: Scalar, a: Affine, b: Affine) -> Affine:
        if kind == "div" and a.range[0] >= 0 and b.range[0] >= 0:
            kind = "floordiv"
        lo, hi = t.range
        if kind == "mod":
            small, large = b.range
            limits = (min(0, small + 1), max(0, large - 1))
        elif a.range[0] >= 0 and b.range[0] >= 0:
            limits = (0, a.range[1])
        else:
            size = max(map(abs, a.range))
            limits = (max(lo, -size), min(hi, size))
        return of(self.atoms.make(kind, (a, b), limits))

    def extreme(self, kind: str, a: Affine, b: Affine) -> Affine:
        pick = min if kind == "min" else max
        return of(self.atoms.make(kind, (a, b), (pick(a.range[0], b.range[0]), pick(a.range[1], b.range[1]))))

    def masked(self, t: Scalar, a: Affine, b: Affine) -> Affine | None:
        """x & mask: for masks 2ᵏ - 1 the remainder, else at most the mask, if that is not negative."""
        if a.is_const:
            a, b = b, a
        if b.is_const and b.const >= 0:
            if b.const & (b.const + 1) == 0:
                return self.divided("mod", t, a, number(b.const + 1))
            return of(self.atoms.unknown("bits", (0, b.const)))
        if b.is_const:
            return None
        some, anything = (of(self.atoms.unknown("bits", limits)) for limits in ((0, t.range[1]), t.range))
        made: Affine = self.choose(terms.at_most(number(0), b), t, self.extreme("min", some, b), anything)
        return made
