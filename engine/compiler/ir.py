"""The intermediate representation: one data structure for HIR and MIR, which differ only in what the verifier allows.

A function is a region of ops; an op is its own value. Control flow is structured (if, for, while own regions), mutable
locals are `slot` ops read by `get` and written by `set`. The meaning of each op stands in `ops.py`.

HIR: values of any type, calls, break/continue/return anywhere.
MIR: scalars and pointers only, no calls, no break/continue/return; every loop has one latch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from engine.compiler.types import LocalArray, Scalar, Type, void
from engine.errors import InternalError


class Location(NamedTuple):
    """Where in the user's source an op comes from: line and column count from 1."""

    line: int
    column: int
    file: str = ""  # "": that of the function


OBSERVED = "@"  # begins the names of slots that a debugger wants to see: they stay, though nothing reads them


class Op:
    """An operation and the value it yields (`type` is void when it yields none)."""

    __slots__ = ("attrs", "kind", "loc", "operands", "regions", "type")

    def __init__(self, kind: str, type: Type = void, operands: tuple[Op, ...] = (), attrs: dict[str, Any] | None = None,
                 regions: tuple[Region, ...] = (), loc: Location | None = None):  # fmt: skip
        self.kind = kind
        self.type = type
        self.operands = operands
        self.attrs = attrs or {}
        self.regions = regions
        self.loc = loc

    def __repr__(self) -> str:
        return f"<{self.kind}: {self.type!r}>"


def local_type(op: Op) -> LocalArray:
    """The type of a local array."""
    if not isinstance(op.type, LocalArray):
        raise InternalError(f"{op} is no local array")
    return op.type


def scalar_type(op: Op) -> Scalar:
    """The type of a scalar, or of the elements of a local array of them, which MIR has."""
    t = op.type.dtype if isinstance(op.type, LocalArray) else op.type
    if not isinstance(t, Scalar):
        raise InternalError(f"{op} is neither a scalar nor an array of them")
    return t


class Region:
    """A straight list of ops that run in order; values are visible in the regions nested below."""

    __slots__ = ("ops",)

    def __init__(self, ops: list[Op] | None = None):
        self.ops: list[Op] = ops if ops is not None else []

    def append(self, op: Op) -> Op:
        self.ops.append(op)
        return op

    def walk(self) -> Iterator[Op]:
        """Every op, outer before inner, in order."""
        rest = [iter(self.ops)]  # a stack: generators within generators would hand each op through all levels
        while rest:
            for op in rest[-1]:
                yield op
                if op.regions:
                    rest += [iter(region.ops) for region in reversed(op.regions)]
                    break
            else:
                rest.pop()


@dataclass(eq=False)  # identity: functions are keys of the compiler's memos
class Function:
    """A kernel or a function specialised to its argument types."""

    name: str
    params: list[Op]  # `param` ops, one for each run-time argument; they stand in no region
    body: Region = field(default_factory=Region)
    result: Type = void
    file: str = ""
    line: int = 0
    is_kernel: bool = False
    # captured values by "module:name", for a later run to see that they are the same; None when they cannot be told
    captures: dict[str, Any] | None = field(default_factory=dict)
    gradient: Any = None  # a `frontend.adjoints.CustomGradient` where the user or the library gave one

    def callees(self) -> list[Function]:
        """Functions that this one calls directly, each once, in order of first call."""
        seen: dict[int, Function] = {}
        for op in self.body.walk():
            if op.kind == "call":
                seen.setdefault(id(op.attrs["callee"]), op.attrs["callee"])
        return list(seen.values())


Pass = Callable[[Function], Function]


def clone(region: Region, values: dict[Op, Op]) -> Region:
    """A deep copy of `region`; operands found in `values` are replaced, and copies are recorded there."""
    return Region([clone_op(op, values) for op in region.ops])


def clone_op(op: Op, values: dict[Op, Op]) -> Op:
    """A copy of one op and all regions below it."""
    attrs = op.attrs
    if "exit" in attrs:
        attrs = {**attrs, "exit": values.get(attrs["exit"], attrs["exit"])}
    copy = Op(op.kind, op.type, tuple(values.get(v, v) for v in op.operands), attrs, (), op.loc)
    values[op] = copy
    if op.regions:
        copy.regions = tuple(clone(region, values) for region in op.regions)
    return copy


def sweep(region: Region, dead: set[Op]) -> None:
    """Removes the ops in `dead` from `region` and all regions below it, in place; a for keeps its `index`."""
    region.ops = [op for op in region.ops if op not in dead or op.kind == "index"]
    for op in region.ops:
        for inner in op.regions:
            sweep(inner, dead)
