"""What one lowering carries: the function being built, the names in scope, and how ops are appended.

The visitors of statements and expressions live in the sibling files; each registers the syntax that it lowers in the
tables STATEMENTS and EXPRESSIONS, so that a newcomer finds the room for a construct by its name.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from engine.compiler import ops, types
from engine.compiler.diagnostics import compile_error, did_you_mean
from engine.compiler.frontend.names import NameUse
from engine.compiler.frontend.unsupported import unsupported
from engine.compiler.ir import OBSERVED, Function, Location, Op, Region
from engine.compiler.source import Source
from engine.config import config
from engine.errors import CompileError

# a statement's visitor gets the statements after it, and returns True if it has lowered them too
STATEMENTS: dict[type, Callable[[Lowering, Any, list[ast.stmt]], bool | None]] = {}
EXPRESSIONS: dict[type, Callable[[Lowering, Any], Value]] = {}


# what a file needs of one that stands on top of it: "call", "call func" (functions), "requirements"
# (contracts), "leave" (statements), "vocabulary", "names" (lang), "bind tile" (tile_elements), "call target" (calls),
# "tile operator", "tile unary", "tile update" and "element operator" (tiles)
HOOKS: dict[str, Callable[..., Any]] = {}


def statement(node_type: type) -> Callable[[Any], Any]:
    """Registers the visitor of a statement."""
    return lambda visitor: STATEMENTS.setdefault(node_type, visitor)


def expression(node_type: type) -> Callable[[Any], Any]:
    """Registers the visitor of an expression."""
    return lambda visitor: EXPRESSIONS.setdefault(node_type, visitor)


@dataclass(frozen=True)
class Static:
    """A value known while compiling: a literal, a captured constant, a function, a type, a module."""

    value: Any

    @property
    def is_number(self) -> bool:
        return isinstance(self.value, int | float)


@dataclass(frozen=True)
class Several:
    """A Python tuple of values, some of which may be static."""

    items: tuple[Value, ...]


Value = Op | Static | Several


@dataclass
class Binding:
    """What a local name stands for now: a value that never changes, or a slot."""

    value: Value
    region: Region
    is_slot: bool = False


class Lowering:
    """Lowers one function; `region` is where ops go, `bound` the names certain to have a value here."""

    def __init__(self, source: Source, function: Function):
        self.source = source
        self.function = function
        self.region = function.body
        self.uses = NameUse.of(source.tree, source)
        self.bound: dict[str, Binding] = {}
        self.slots: dict[str, Op] = {}
        self.slot_count = 0  # slots stand at the start of the body, in order of first use
        self.each_depth = 0  # independent loops around
        self.terminated = False  # the current path has returned, or left its loop
        self.loops: list[Op | None] = []  # of the loops around: the slot that a break clears, for `else`
        self.places: list[dict[str, Any]] = []  # of the calls being lowered: where references point to
        self.refs: list[str] = []  # parameters whose final values go back to the caller
        self.tiles: dict[str, Op] = {}  # the memory of tiles whose names are assigned more than once
        self.max_unroll = config.max_unroll  # loops of so many constant rounds are taken apart
        self.observe = False  # a debugger wants to see what the function assigns
        self.named_tiles: set[Op] = set()  # tiles that have a name: another name of a register tile is a copy
        self.has_result = False  # a return statement has fixed the result type
        self.adjoints: dict[str, Any] | None = None  # in the gradient of a function: the places of `adjoint[x]`

    # --- errors ---------------------------------------------------------------------------------------------------

    def error(self, node: ast.AST, message: str, hint: str = "") -> CompileError:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            node = node.value  # what is wrong with an assignment is the value
        return compile_error(self.source, node, message, hint)

    # --- dispatch -------------------------------------------------------------------------------------------------

    def block(self, body: list[ast.stmt]) -> None:
        """Lowers statements until one of them ends the path."""
        for done, node in enumerate(body, 1):
            if self.terminated:
                return
            visitor = STATEMENTS.get(type(node))
            if visitor is None:
                raise self.error(node, *unsupported(node))
            if visitor(self, node, body[done:]):
                return

    def expression(self, node: ast.expr) -> Value:
        visitor = EXPRESSIONS.get(type(node))
        if visitor is None:
            raise self.error(node, *unsupported(node))
        return visitor(self, node)

    # --- ops ------------------------------------------------------------------------------------------------------

    def emit(self, kind: str, type_: types.Type, *operands: Op, node: ast.AST | None = None,
             regions: tuple[Region, ...] = (), **attrs: Any) -> Op:  # fmt: skip
        """Appends an op to the current region."""
        loc = None
        if isinstance(node, ast.stmt | ast.expr):
            loc = Location(node.lineno, node.col_offset + 1, self.source.filename)
        return self.region.append(Op(kind, type_, operands, attrs, regions, loc))

    @contextmanager
    def inside(self, region: Region) -> Iterator[None]:
        """Ops go into `region`; names bound and paths ended inside stay inside."""
        outer = self.region, self.bound, self.terminated
        self.region, self.bound, self.terminated = region, dict(self.bound), False
        try:
            yield
        finally:
            self.region, self.bound, self.terminated = outer

    def const(self, value: Any, dtype: types.Scalar, node: ast.AST) -> Op:
        """A constant of a scalar type; an integer that does not fit is an error."""
        if dtype.is_int:
            assert not isinstance(value, float) or value.is_integer(), (value, dtype)
            low, high = dtype.range
            if not low <= value <= high:
                raise self.error(node, f"{value} does not fit {dtype!r} ({low} … {high})")
            value = int(value)
        elif dtype.is_float:
            value = float(value)
        else:
            value = bool(value)
        return self.emit("const", dtype, node=node, value=value)

    def value(self, v: Value, node: ast.AST, want: types.Type | None = None) -> Op:
        """`v` as a run-time value; a literal takes the scalar type `want`, else int32, float32 or bool."""
        if isinstance(v, Op):
            return v
        if isinstance(v, Static) and isinstance(v.value, tuple) and static_type(v.value) is None:
            v = Several(tuple(map(Static, v.value)))
        if isinstance(v, Several):
            fits = isinstance(want, types.Tuple) and len(want.items) == len(v.items)
            wants = want.items if fits else [None] * len(v.items)  # type: ignore[union-attr]
            items = [self.value(item, node, t) for item, t in zip(v.items, wants, strict=True)]
            for item in items:
                if isinstance(item.type, types.LocalArray):
                    raise self.error(node, f"{item.type!r} cannot be part of a tuple that is returned or rebound")
            return self.emit("make", types.Tuple(tuple(i.type for i in items)), *items, node=node)
        t = static_type(v.value)
        if t is None:
            raise self.error(node, f"{_describe(v.value)} is not a value that a kernel can compute with")
        if isinstance(t, types.Scalar):
            weak = type(v.value) in types.PYTHON or isinstance(v.value, int)
            if isinstance(want, types.Scalar) and weak and literal_fits(v.value, want):
                t = want
            number = v.value.item() if hasattr(v.value, "item") else v.value
            return self.const(number, t, node)
        flat = [self.const(number, scalar, node) for number, scalar in flat_value(v.value, t)]
        return assemble(self, t, iter(flat), node)

    # --- names ----------------------------------------------------------------------------------------------------

    def bind(self, name: str, v: Value, node: ast.AST, want: types.Type | None = None) -> None:
        """Assigns `name`: a fresh value if it is assigned once, a store into its slot otherwise."""
        by_reference = isinstance(v, Op) and isinstance(v.type, types.Array | types.LocalArray | types.Table)
        if isinstance(v, Op) and isinstance(v.type, types.Tile):
            HOOKS["bind tile"](self, name, v, node)
            return
        if isinstance(v, Op) and not v.type.is_value:
            before = self.bound.get(name)
            if before is not None and before.region is not self.region:
                raise self.error(node, f"'{name}' is {v.type!r} and cannot be rebound inside a branch or loop")
            self.bound[name] = Binding(v, self.region)
            return
        if not self.uses.needs_slot(name, by_reference):
            self.bound[name] = Binding(self.value(v, node, want) if want is not None else v, self.region)
            if self.observe and isinstance(v, Op) and not by_reference:
                self.emit("set", types.void, self.slot(v.type, name), v, node=node)
            return
        if isinstance(v, Static) and callable(v.value) and static_type(v.value) is None:
            meant = f"{_describe(v.value)}, which is known while compiling only"
            raise self.error(node, f"'{name}' is assigned more than once and cannot mean {meant}",
                             "use another name for each")  # fmt: skip
        slot = self.slots.get(name)
        value = self.value(v, node, slot.type if slot is not None else want)
        if slot is None:
            slot = self.slots[name] = self.slot(value.type, name)
        before = self.bound.get(name)
        if slot.type != value.type and by_reference and before is not None and before.region is self.region:
            slot = self.slots[name] = self.slot(value.type, name)  # the name means another array from here on
        if slot.type != value.type:
            scalars = isinstance(slot.type, types.Scalar) and isinstance(value.type, types.Scalar)
            hint = f"convert it: {slot.type!r}(…), or use another name" if scalars else "use another name"
            if isinstance(slot.type, types.Array):
                hint = f"an element is written by {name}[i] = …"
            raise self.error(node, f"'{name}' holds {slot.type!r} and cannot become {value.type!r}", hint)
        self.emit("set", types.void, slot, value, node=node)
        self.bound[name] = Binding(slot, self.region, is_slot=True)

    def slot(self, t: types.Type, name: str) -> Op:
        """A new mutable local."""
        if self.observe:
            of_function = "" if self.function.is_kernel else f"{self.function.name}."
            name = f"{OBSERVED}{of_function}{name}"
        return self.at_start(Op("slot", t, (), {"name": name}))

    def at_start(self, op: Op) -> Op:
        """Puts an op without operands at the start of the function, where every later op can use it."""
        self.function.body.ops.insert(self.slot_count, op)
        self.slot_count += 1
        return op

    def read(self, name: str, node: ast.AST) -> Value:
        """The value of a name: local first, then the enclosing scopes of Python."""
        binding = self.bound.get(name)
        if binding is not None:
            if binding.is_slot and not isinstance(type_of(binding.value), types.Tile):
                assert isinstance(binding.value, Op)
                return self.emit("get", binding.value.type, binding.value, node=node)
            return binding.value
        if name in self.uses.assigned:
            raise self.error(node, f"'{name}' may have no value here: not every path before this line assigns it",
                             "assign it before the branch or loop")  # fmt: skip
        try:
            value = self.source.lookup(name)
        except KeyError:
            known = self.vocabulary(name)
            if known is not None:
                return Static(known)
            language = HOOKS["names"]()
            local = [] if name in language else [*self.bound, *self.source.fn.__globals__]
            hint = did_you_mean(name, local) or did_you_mean(name, language, "engine.")
            raise self.error(node, f"name '{name}' is not defined", hint) from None
        if getattr(value, "makes_arrays", False) and not isinstance(value, type):
            raise self.error(node, f"'{name}' is an array of Python's: pass it to the kernel as an argument")
        if name in self.source.captured:
            self.function.captures = None
        elif name in self.source.fn.__globals__:
            self.capture(f"{self.source.fn.__module__}:{name}", value)
        return Static(value)

    @staticmethod
    def vocabulary(name: str) -> Any:
        """A function of the language by its bare name, which needs no import inside kernels; None if there is none."""
        return HOOKS["vocabulary"](name)

    def capture(self, path: str, value: Any) -> None:
        """Notes that the code depends on a value of Python's."""
        if self.function.captures is not None:
            self.function.captures[path] = value


def static_type(value: Any) -> types.Type | None:
    """The type that a compile-time value takes in a kernel, or None if it has none."""
    if isinstance(value, bool):
        return types.bool_
    if isinstance(value, int):
        low, high = types.int32.range
        return types.int32 if low <= value <= high else types.int64
    if isinstance(value, types.BFloat16):
        return types.bfloat16
    if isinstance(value, float):
        return types.float32 if type(value) is float else types.float64
    dtype = getattr(value, "dtype", None)
    if dtype is not None and dtype in types.BY_NUMPY and getattr(value, "ndim", None) == 0:
        return types.BY_NUMPY[dtype]
    t = getattr(type(value), "ir_type", None)
    return t if isinstance(t, types.Type) and not isinstance(value, types.Type) else None


def literal_fits(value: Any, t: types.Scalar) -> bool:
    """Whether a Python literal may take the scalar type `t`: truth to truth, whole numbers to all numbers."""
    if isinstance(value, bool) or t.kind == "b":
        return isinstance(value, bool) and t.kind == "b"
    return t.is_float or (isinstance(value, int) and t.is_int)


def flat_value(value: Any, t: types.Type) -> Iterator[tuple[Any, types.Scalar]]:
    """The scalars of a Python-scope vector, matrix, … or struct, in the order of `types.leaves`."""
    if isinstance(t, types.Struct):
        for name, ftype in t.fields:
            yield from flat_value(getattr(value, name), ftype)
        return
    if isinstance(t, types.Scalar):
        yield value, t
        return
    same = types.components(t)
    assert same is not None
    for item in value:
        if hasattr(item, "__iter__"):
            yield from ((x, same[0]) for x in item)
        else:
            yield item, same[0]


def assemble(ctx: Lowering, t: types.Type, flat: Iterator[Op], node: ast.AST) -> Op:
    """An aggregate of type `t` from its scalars."""
    if isinstance(t, types.Scalar):
        return next(flat)
    if isinstance(t, types.Struct):
        parts = [assemble(ctx, ftype, flat, node) for _, ftype in t.fields]
    elif isinstance(t, types.Tuple):
        parts = [assemble(ctx, item, flat, node) for item in t.items]
    else:
        parts = [next(flat) for _ in types.leaves(t)]
    return ctx.emit("make", t, *parts, node=node)


def zero(ctx: Lowering, t: types.Type, node: ast.AST) -> Op:
    """The zero value of `t`; every scalar type has its own zero, an array has no elements."""
    if isinstance(t, types.Array) and t.layout == "aos" and type(t) is types.Array:
        nowhere, none = ctx.const(0, types.uint64, node), ctx.const(0, types.int32, node)
        return ctx.emit("array_at", t, nowhere, *[none] * t.ndim, node=node)
    if isinstance(t, types.Struct):
        return ctx.emit("make", t, *[zero(ctx, ftype, node) for _, ftype in t.fields], node=node)
    flat = []
    for _, leaf in types.leaves(t):
        if not isinstance(leaf, types.Scalar):
            raise ctx.error(node, f"{t!r} has no zero value: it contains an array")
        flat.append(ctx.const(0, leaf, node))
    return assemble(ctx, t, iter(flat), node)


def convert_components(ctx: Lowering, v: Op, dtype: types.Scalar, node: ast.AST) -> Op:
    """`v` with its components converted to `dtype`."""
    same = types.components(v.type)
    assert same is not None
    if isinstance(v.type, types.Scalar):
        return ctx.emit("cast", dtype, v, node=node)
    parts = [ctx.emit("extract", same[0], v, node=node, index=k) for k in range(same[1])]
    parts = [ctx.emit("cast", dtype, part, node=node) for part in parts]
    return ctx.emit("make", types.with_scalar(v.type, dtype), *parts, node=node)


def type_of(v: Value) -> types.Type | None:
    """The type of a value; None for a static one without a kernel type."""
    return v.type if isinstance(v, Op) else static_type(v.value) if isinstance(v, Static) else None


def is_cheap(region: Region, limit: int = 40) -> bool:
    """Whether running `region` unasked is harmless and cheap: no effects, no memory, few ops."""
    allowed = ops.ELEMENTWISE.keys() | {"const", "cast", "bitcast", "select", "bits", "make", "extract", "insert",
                                        "get", "tid", "shape", "count", "field"}  # fmt: skip
    return len(region.ops) <= limit and all(op.kind in allowed for op in region.ops)


def _describe(value: Any) -> str:
    """A Python object in a message: its name if it has one."""
    name = getattr(value, "__name__", None)
    return f"'{name}'" if name else f"{value!r} ({type(value).__name__})"
