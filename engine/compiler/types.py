"""The type system of the kernel language: what a value is, and how it flattens into machine scalars.

Types are immutable, compare by value and print as the user writes them. `leaves` is the one place that says how a type
is cut into scalars; the scalariser, the launch packer and the memory layout all read it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

import numpy as np

LAYOUTS = ("aos", "planes", "rows")
ROW_SIZES = (16, 32, 64)  # bytes a "rows" struct is padded to


class Type:
    """Base of all IR types."""

    is_value: ClassVar[bool] = True  # can be held by a local variable, passed and returned by value

    @property
    def ir_type(self) -> Type:
        """Annotations and values are resolved through this attribute; a type is its own annotation."""
        return self


@dataclass(frozen=True, repr=False)
class Scalar(Type):
    """A machine number or truth value. Calling it casts in Python scope, as it does in a kernel."""

    name: str
    kind: str  # "b" truth, "i" signed, "u" unsigned, "f" float
    bits: int

    def __repr__(self) -> str:
        return self.name

    def __call__(self, value: Any = 0) -> Any:
        if self.is_int and not isinstance(value, np.generic):
            whole = int(value)
            low, high = self.range
            return self.numpy.type(whole if low <= whole <= high else (whole - low) % (high - low + 1) + low)
        if self.name == "bfloat16":
            return BFloat16(value)
        with np.errstate(over="ignore", invalid="ignore"):
            return self.numpy.type(value)

    @property
    def __name__(self) -> str:
        return self.name

    def __instancecheck__(self, value: Any) -> bool:
        """`isinstance(x, float32)`: whether `x` is a scalar of exactly this type."""
        if self.name == "bfloat16":
            return isinstance(value, BFloat16)
        return isinstance(value, np.generic) and value.dtype == self.numpy

    @property
    def numpy(self) -> np.dtype:
        return _NUMPY[self]

    @property
    def dtype(self) -> np.dtype:
        """What makes `np.dtype(float32)` work."""
        return _NUMPY[self]

    __numpy_dtype__ = dtype
    _length_: ClassVar[int] = 1
    _shape_: ClassVar[tuple[int, ...]] = ()

    @property
    def _type_(self) -> Any:
        """The ctypes type of a component, by the name under which code written for Warp asks for it."""
        return _CTYPES[self.name]

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return 1 if self.kind == "b" else self.bits // 8

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_int(self) -> bool:
        return self.kind in "iu"

    @property
    def range(self) -> tuple[int, int]:
        """Smallest and largest integer of an integer type."""
        if self.kind == "u":
            return 0, 2**self.bits - 1
        return -(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1


bool_ = Scalar("bool", "b", 1)
int8, int16, int32, int64 = (Scalar(f"int{b}", "i", b) for b in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (Scalar(f"uint{b}", "u", b) for b in (8, 16, 32, 64))
float16, float32, float64 = (Scalar(f"float{b}", "f", b) for b in (16, 32, 64))
bfloat16 = Scalar("bfloat16", "f", 16)  # NumPy has no such type: its arrays show the bits as uint16
SCALARS = (bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, float64, bfloat16)
_NUMPY = {s: np.dtype("uint16" if s is bfloat16 else s.name) for s in SCALARS}
BY_NUMPY = {d: s for s, d in _NUMPY.items() if s is not bfloat16}
_CTYPES = {"bool": ctypes.c_bool, "float16": ctypes.c_uint16, "bfloat16": ctypes.c_uint16, "float32": ctypes.c_float,
           "float64": ctypes.c_double, **{f"int{b}": getattr(ctypes, f"c_int{b}") for b in (8, 16, 32, 64)},
           **{f"uint{b}": getattr(ctypes, f"c_uint{b}") for b in (8, 16, 32, 64)}}  # fmt: skip
PYTHON = {int: int32, float: float32, bool: bool_}


def bfloat16_bits(value: Any) -> Any:
    """The bits of `value` (a number or an array) rounded from float32 to bfloat16, ties to even."""
    bits = np.asarray(value, np.float32).view(np.uint32)
    with np.errstate(over="ignore"):
        rounded = (bits + (0x7FFF + ((bits >> np.uint32(16)) & np.uint32(1))).astype(np.uint32)) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    is_nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return np.where(is_nan, quiet, rounded).astype(np.uint16)


def bfloat16_numbers(bits: Any) -> Any:
    """float32 numbers from the bits of bfloat16 ones."""
    return (np.asarray(bits, np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)


class BFloat16(float):
    """A bfloat16 number in Python scope."""

    __slots__ = ()
    ir_type = bfloat16

    def __new__(cls, value: Any = 0.0) -> BFloat16:
        with np.errstate(over="ignore"):
            return super().__new__(cls, float(bfloat16_numbers(bfloat16_bits(value))))

    @property
    def bits(self) -> int:
        """The 16 bits that stand for the number in memory."""
        return int(bfloat16_bits(float(self)))


@dataclass(frozen=True, repr=False)
class Void(Type):
    """The type of an operation that yields nothing."""

    def __repr__(self) -> str:
        return "None"


@dataclass(frozen=True, repr=False)
class Pointer(Type):
    """A raw address; appears in MIR only, as a leaf of an array."""

    name: ClassVar[str] = "pointer"
    size: ClassVar[int] = 8

    def __repr__(self) -> str:
        return "pointer"


void, pointer = Void(), Pointer()


def _suffix(dtype: Scalar) -> str:
    """The letter that Warp's names give a component type: vec3 (float32), vec3d, vec3i …"""
    return {"float32": "", "float64": "d", "float16": "h", "int32": "i", "uint32": "ui", "int64": "l", "uint64": "ul",
            "int16": "s", "uint16": "us", "int8": "b", "uint8": "ub", "bool": "bool",
            "bfloat16": "bf"}[dtype.name]  # fmt: skip


@dataclass(frozen=True, repr=False)
class Vector(Type):
    """`length` components of one scalar type."""

    dtype: Scalar
    length: int

    def __repr__(self) -> str:
        return f"vec{self.length}{_suffix(self.dtype)}"


@dataclass(frozen=True, repr=False)
class Matrix(Type):
    """Row-major matrix."""

    dtype: Scalar
    rows: int
    cols: int

    def __repr__(self) -> str:
        return f"mat{self.rows}{self.cols}{_suffix(self.dtype)}"


@dataclass(frozen=True, repr=False)
class Quat(Type):
    """Quaternion x, y, z, w."""

    dtype: Scalar

    def __repr__(self) -> str:
        return f"quat{_suffix(self.dtype)}"


@dataclass(frozen=True, repr=False)
class Transform(Type):
    """Rigid transform: translation x, y, z, then quaternion x, y, z, w."""

    dtype: Scalar

    def __repr__(self) -> str:
        return f"transform{_suffix(self.dtype)}"


@dataclass(frozen=True, repr=False)
class Struct(Type):
    """Named fields of any type, passed by value."""

    name: str
    fields: tuple[tuple[str, Type], ...]

    def __repr__(self) -> str:
        return self.name

    def index(self, name: str) -> int | None:
        """Position of field `name`, or None."""
        return next((i for i, (n, _) in enumerate(self.fields) if n == name), None)


@dataclass(frozen=True, repr=False)
class Tuple(Type):
    """Several values in one, as a function returns them."""

    items: tuple[Type, ...]

    def __repr__(self) -> str:
        return f"({', '.join(map(repr, self.items))})"


@dataclass(frozen=True, repr=False)
class Array(Type):
    """Strided n-d array in memory; the layout is part of the type."""

    dtype: Type
    ndim: int = 1
    layout: str = "aos"

    def __repr__(self) -> str:
        parts = [f"dtype={self.dtype!r}"]
        if self.ndim != 1:
            parts.append(f"ndim={self.ndim}")
        if self.layout != "aos":
            parts.append(f'layout="{self.layout}"')
        return f"array({', '.join(parts)})"


@dataclass(frozen=True, repr=False)
class IndexedArray(Array):
    """An array seen through one list of int32 positions per dimension: element i is element indices[i] of the data.

    A dimension without a list has the list 0, 1, 2, …, so that the type and the code do not depend on which are given.
    """

    def __repr__(self) -> str:
        return f"indexed{super().__repr__()}"


@dataclass(frozen=True, repr=False)
class LocalArray(Type):
    """Fixed-size array private to one thread; passed by reference, never held by a mutable local."""

    is_value: ClassVar[bool] = False
    dtype: Type
    shape: tuple[int, ...]
    by_column: bool = False  # the first index runs fastest

    def __repr__(self) -> str:
        return f"zeros(shape={self.shape[0] if len(self.shape) == 1 else self.shape}, dtype={self.dtype!r})"

    @property
    def size(self) -> int:
        n = 1
        for extent in self.shape:
            n *= extent
        return n


@dataclass(frozen=True, repr=False)
class Tile(LocalArray):
    """An array of fixed shape that a block of threads works on together; strides are in elements.

    On the CPU a block is one thread, and the memory is that thread's own. storage: "register" or "shared". Both lie in
    the same memory here, but `a = b` makes a copy of a register tile and a second name of a shared one, as in Warp.
    """

    strides: tuple[int, ...] = ()
    storage: str = "register"

    def __repr__(self) -> str:
        gaps = "" if self.is_dense else f", strides={self.strides}"
        return f"tile[{', '.join(map(repr, (self.dtype, *self.shape)))}{gaps}]"

    @property
    def is_dense(self) -> bool:
        """Whether the elements lie row by row without gaps, so that one index runs over all of them."""
        return self.strides == dense_strides(self.shape)


@dataclass(frozen=True, repr=False)
class TileStack(LocalArray):
    """A stack that a block shares. Its elements are structs (value, count); the first count is how many it holds."""

    @property
    def value(self) -> Type:
        """The type of what is pushed."""
        assert isinstance(self.dtype, Struct)
        return self.dtype.fields[0][1]

    def __repr__(self) -> str:
        return f"tile_stack(capacity={self.shape[0]}, dtype={self.value!r})"


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Elements from one index to the next along each dimension, row by row without gaps; 0 where there is one index."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step if extent > 1 else 0)
        step *= extent
    return tuple(reversed(strides))


def tile_of(dtype: Type, shape: tuple[int, ...], storage: str = "register") -> Tile:
    """A tile without gaps."""
    return Tile(dtype, shape, strides=dense_strides(shape), storage=storage)


def tile_stack_of(dtype: Type, capacity: int) -> TileStack:
    """A stack of values of type `dtype`."""
    return TileStack(Struct("tile_stack", (("value", dtype), ("count", int32))), (capacity,))


@dataclass(frozen=True, repr=False)
class Table(Type):
    """A struct of arrays as one kernel argument: fields are planes, each as long as its dimension symbol says."""

    is_value: ClassVar[bool] = False
    name: str
    fields: tuple[tuple[str, Type, str], ...]  # (name, element type, dimension symbol)

    def __repr__(self) -> str:
        return self.name

    def field(self, name: str) -> tuple[Type, str] | None:
        """Element type and dimension symbol of field `name`, or None."""
        return _fields(self).get(name)

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(symbol for _, _, symbol in self.fields))


@cache
def _fields(table: Table) -> dict[str, tuple[Type, str]]:
    return {name: (dtype, symbol) for name, dtype, symbol in table.fields}


@dataclass(frozen=True, repr=False)
class Reference(Type):
    """The annotation of a function's parameter whose assignments reach the caller's variable, element or field."""

    is_value: ClassVar[bool] = False
    dtype: Type

    @property
    def value_type(self) -> Type:
        return self.dtype

    def __repr__(self) -> str:
        return f"ref[{self.dtype!r}]"


Path = tuple[Any, ...]


def components(t: Type) -> tuple[Scalar, int] | None:
    """(scalar type, count) of a homogeneous value type, else None."""
    match t:
        case Scalar():
            return t, 1
        case Vector(dtype, n):
            return dtype, n
        case Matrix(dtype, r, c):
            return dtype, r * c
        case Quat(dtype):
            return dtype, 4
        case Transform(dtype):
            return dtype, 7
    return None


def with_scalar(t: Type, dtype: Scalar) -> Type:
    """A type like `t` with another component type."""
    match t:
        case Vector(_, n):
            return Vector(dtype, n)
        case Matrix(_, r, c):
            return Matrix(dtype, r, c)
        case Quat():
            return Quat(dtype)
        case Transform():
            return Transform(dtype)
    return dtype


@cache
def leaves(t: Type) -> tuple[tuple[Path, Scalar | Pointer], ...]:
    """The scalars that a value of type `t` consists of, in order, each with the path that leads to it.

    scalar: (). vector, matrix, quaternion, transform component k: (k,). struct field: ("f", …). tuple item: (i, …).
    array: ("data",) or, for planes, ("plane", k); then ("shape", d) int32 and ("stride", d) int64 bytes.
    indexed array: the same, with ("index", d) pointers before the shape.
    table: ("field", name, "plane", k) and ("count", symbol) int32.
    """
    return tuple(_leaves(t))


def _leaves(t: Type) -> Iterator[tuple[Path, Scalar | Pointer]]:
    same = components(t)
    if isinstance(t, Scalar):
        yield (), t
    elif same:
        yield from (((k,), same[0]) for k in range(same[1]))
    elif isinstance(t, Struct):
        for name, ftype in t.fields:
            yield from (((name, *path), leaf) for path, leaf in leaves(ftype))
    elif isinstance(t, Tuple):
        for i, item in enumerate(t.items):
            yield from (((i, *path), leaf) for path, leaf in leaves(item))
    elif isinstance(t, Array):
        if t.layout == "planes":
            yield from ((("plane", k), pointer) for k in range(len(leaves(t.dtype))))
        else:
            yield ("data",), pointer
        if isinstance(t, IndexedArray):
            yield from ((("index", d), pointer) for d in range(t.ndim))
        yield from ((("shape", d), int32) for d in range(t.ndim))
        yield from ((("stride", d), int64) for d in range(t.ndim))
    elif isinstance(t, Table):
        for name, dtype, _ in t.fields:
            yield from ((("field", name, "plane", k), pointer) for k in range(len(leaves(dtype))))
        yield from ((("count", symbol), int32) for symbol in t.symbols)
    elif not isinstance(t, Void):
        raise TypeError(f"{t!r} has no leaves")


@cache
def memory_layout(t: Type, layout: str = "aos") -> tuple[tuple[int, ...], int, int]:
    """(byte offset of each leaf, size, alignment) of one array element of type `t`; C rules, "rows" pads the size."""
    if isinstance(t, Struct):
        offsets: list[int] = []
        end, align = 0, 1
        for _, ftype in t.fields:
            inner, size, a = memory_layout(ftype)
            end = -(-end // a) * a
            offsets += [end + o for o in inner]
            end, align = end + size, max(align, a)
        size = -(-end // align) * align
    else:
        offsets, end, align = [], 0, 1
        for _, leaf in leaves(t):  # of one size each, unless it is the descriptor of an array
            end = -(-end // leaf.size) * leaf.size
            offsets.append(end)
            end, align = end + leaf.size, max(align, leaf.size)
        size = -(-end // align) * align
    if layout == "rows":
        align = max(align, 16)
        size = next((s for s in ROW_SIZES if s >= size), -(-size // 64) * 64)
    return tuple(offsets), size, align


@dataclass(frozen=True, repr=False)
class Generic(Type):
    """A pattern in an annotation: matches every type whose kind and parameters agree; `None` parameters are free."""

    kind: str  # "any" | "scalar" | "int" | "float" | "vector" | "matrix" | "quat" | "transform" | "array" | "tile"
    dtype: Type | None = None
    shape: tuple[int | None, ...] = ()
    name: str = ""  # equal non-empty names must bind to equal types

    def __repr__(self) -> str:
        if self.kind == "tile" and self.dtype is not None:
            return f"tile[{', '.join(map(repr, (self.dtype, *self.shape)))}]"
        return self.name or {"any": "Any"}.get(self.kind, self.kind)


Any_ = Generic("any")
AnyScalar: Any = Generic("scalar", name="Scalar")
AnyInt: Any = Generic("int", name="Int")
AnyFloat: Any = Generic("float", name="Float")


def matches(pattern: Type, t: Type, bound: dict[str, Type] | None = None) -> bool:
    """Whether `t` fits the annotation `pattern`; names bound on the way are collected in `bound`."""
    if not isinstance(pattern, Generic):
        if isinstance(pattern, Array) and type(pattern) is type(t):
            assert isinstance(t, Array)
            return (pattern.ndim, pattern.layout) == (t.ndim, t.layout) and matches(pattern.dtype, t.dtype, bound)
        if isinstance(pattern, Reference):
            return matches(pattern.dtype, t, bound)
        if isinstance(pattern, Tuple) and isinstance(t, Tuple) and len(pattern.items) == len(t.items):
            return all(matches(p, item, bound) for p, item in zip(pattern.items, t.items, strict=True))
        return pattern == t
    if not _kind_matches(pattern, t, bound):
        return False
    if pattern.name and bound is not None:
        return bound.setdefault(pattern.name, t) == t
    return True


def _kind_matches(pattern: Generic, t: Type, bound: dict[str, Type] | None) -> bool:
    dtype = pattern.dtype or Any_
    match pattern.kind, t:
        case "any", _:
            return True
        case ("scalar" | "int" | "float") as kind, Scalar():
            return kind == "scalar" or (t.is_int if kind == "int" else t.is_float)
        case "vector", Vector(d, n):
            return pattern.shape in ((), (None,), (n,)) and matches(dtype, d, bound)
        case "matrix", Matrix(d, r, c):
            sizes = pattern.shape or (None, None)
            return sizes[0] in (None, r) and sizes[1] in (None, c) and matches(dtype, d, bound)
        case ("quat", Quat(d)) | ("transform", Transform(d)):
            return matches(dtype, d, bound)
        case "tuple", Tuple(items):
            return all(matches(dtype, item, bound) for item in items)
        case "tile", Tile(d, shape):
            return pattern.shape in ((), shape) and matches(dtype, d, bound)
        case "array", Array(d, n):
            return pattern.shape in ((), (None,), (n,)) and matches(dtype, d, bound)
    return False


def is_concrete(t: Type) -> bool:
    """Whether `t` contains no pattern."""
    match t:
        case Generic():
            return False
        case Array(dtype) | Reference(dtype):
            return is_concrete(dtype)
        case Tuple(items):
            return all(map(is_concrete, items))
    return True


def literal(value: Any) -> Any:
    """`Literal[2]` as 2, anything else as it is. Raises TypeError for a choice of several."""
    if get_origin(value) is not Literal:
        return value
    given = get_args(value)
    if len(given) != 1:
        raise TypeError(f"Expected a single Literal value, got {value}")
    return given[0]


def of_annotation(annotation: Any) -> Type:
    """The type that an annotation means: a scalar type of Python or NumPy, or anything with an `ir_type`."""
    if annotation is None or annotation is type(None):
        return void
    if annotation is Any:
        return Any_
    if isinstance(annotation, type) and annotation in PYTHON:
        return PYTHON[annotation]
    if isinstance(annotation, type) and issubclass(annotation, np.generic) and np.dtype(annotation) in BY_NUMPY:
        return BY_NUMPY[np.dtype(annotation)]
    t = getattr(annotation, "ir_type", None)
    if isinstance(t, Type):
        return t
    if isinstance(annotation, TypeVar):
        return Generic("any", name=annotation.__name__)
    origin = get_origin(annotation)
    if annotation is tuple:
        return Generic("tuple")
    if origin is tuple and len(get_args(annotation)) == 2 and get_args(annotation)[1] is Ellipsis:
        return Generic("tuple", of_annotation(get_args(annotation)[0]))
    if origin is tuple and get_args(annotation):
        return Tuple(tuple(map(of_annotation, get_args(annotation))))
    if origin in (Union, UnionType):
        raise TypeError(f"{annotation} is a choice, and a parameter of a kernel has one type; leave it open with Any, "
                        "or write an overload for each")  # fmt: skip
    if origin is Annotated:
        return of_annotation(get_args(annotation)[0])
    if annotation is Callable or origin is Callable or getattr(annotation, "annotates_functions", False):
        return Any_  # a function: known while compiling
    raise TypeError(f"{annotation!r} is not a type of the kernel language")
