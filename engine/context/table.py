"""Tables: a struct of arrays as one object and one kernel argument.

    @table
    class Bodies:
        pos: vec3
        inv_mass: float

    b = Bodies(1000)                        # or Model({"nbody": 5, "nshape": 7}) where fields have several lengths
    b.pos.numpy()                           # (1000, 3), a view

The fields of one dimension lie in one block, each scalar component in a plane of its own on a 64-byte border:

    pos.x ········ | pos.y ········ | pos.z ········ | inv_mass ········ |

`resize` moves the fields of the dimensions that change to a new block, unless `reserve` made room for them. The field
arrays keep their identity and point to the new memory; slices that were taken from them, and NumPy views, keep showing
the old one. `generation` counts the moves, and recorded launches pack again.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from engine.compiler import types
from engine.context import array_views as views
from engine.context import dtypes, recording
from engine.context.array import array
from engine.context.device import Device, get_device
from engine.context.memory import ALIGNMENT

DEFAULT_SYMBOL = "n"
_known: dict[types.Table, types.Table] = {}  # the one object for equal types: the launch path compares by identity
_RESERVED = ("ir_type", "device", "count", "counts", "pointers", "generation", "nbytes", "resize", "reserve", "room",
             "clone", "copy_from", "fields", "hash", "dependents")  # fmt: skip


class Table:
    """Base of all table classes; `Model(count)` makes one with zeroed fields.

    `count` is the number of rows, or a dict of dimension symbol → length (symbols left out are 0). Attributes: one
    array per field, `count` (dict: symbol → length), `generation`, `device`. Raises ValueError for a negative length or
    one beyond int32, KeyError for a symbol that the table does not have.
    """

    ir_type: ClassVar[Any] = types.void
    device: Device
    count: dict[str, int]
    generation: int
    pointers: tuple[int, ...]  # address of each plane, in the order of `types.leaves`
    counts: tuple[int, ...]  # length of each symbol, in the order of `ir_type.symbols`

    def __init__(self, count: int | Mapping[str, int] = 0, device: Any = None):
        self.device = get_device(device)
        self.generation = 0
        self.dependents: weakref.WeakSet[Any] = weakref.WeakSet()  # recorded launches; told when memory moves
        self.count = dict.fromkeys(self.ir_type.symbols, 0)
        self.count.update(self._checked(count))
        self.room: dict[str, int] = {}  # of the dimensions that `reserve` was called for
        self._fields: dict[str, array] = {}
        for name, dtype, _ in self.ir_type.fields:
            field = array(dtype=dtype, layout="planes", device=self.device)
            field.strides, field.table = (field.element_stride,), weakref.ref(self)
            self._fields[name] = field
        for symbol in self.ir_type.symbols:
            self._place(symbol)
        self.__dict__.update(self._fields)  # so that reading a field is an attribute and nothing more
        self._publish()

    def _checked(self, count: int | Mapping[str, int]) -> dict[str, int]:
        symbols = self.ir_type.symbols
        if not isinstance(count, Mapping):
            if len(symbols) > 1:
                raise TypeError(f"{self.ir_type!r} has several dimensions; give a dict of {', '.join(symbols)}")
            count = dict.fromkeys(symbols, count)
        for symbol in count:
            if symbol not in symbols:
                raise KeyError(f"{self.ir_type!r} has no dimension '{symbol}'; it has {', '.join(symbols)}")
        return {symbol: views.checked_shape(length)[0] for symbol, length in count.items()}

    def _fields_of(self, symbol: str) -> list[array]:
        return [self._fields[name] for name, _, dim in self.ir_type.fields if dim == symbol]

    def _place(self, symbol: str) -> None:
        """Point the fields of one dimension to a new, zeroed block."""
        n, fields = self.count[symbol], self._fields_of(symbol)
        room, end = max(n, self.room.get(symbol, 0)), 0
        for field in fields:
            field.shape, field.ptr = (n,), end
            field.plane_stride = -(-room * field.element_stride // ALIGNMENT) * ALIGNMENT
            end += field.plane_stride * len(types.leaves(field.element))
        block = self.device.alloc(end, zeroed=True)
        for field in fields:
            field.block, field.ptr = block, block.ptr + field.ptr

    def _publish(self) -> None:
        """Let the launch path see where the planes lie now."""
        self.pointers = tuple(
            field.ptr + k * field.plane_stride
            for field in self._fields.values()
            for k in range(len(types.leaves(field.element)))
        )
        self.counts = tuple(self.count[symbol] for symbol in self.ir_type.symbols)

    def __setattr__(self, name: str, value: Any) -> None:
        if self.ir_type.field(name) is not None:
            raise AttributeError(f"fields keep their identity: use t.{name}.assign(...) instead of t.{name} = ...")
        object.__setattr__(self, name, value)

    def __len__(self) -> int:
        """Rows of a table with one dimension symbol."""
        if len(self.count) != 1:
            raise TypeError(f"{self.ir_type!r} has several dimensions; see its .count")
        return next(iter(self.count.values()))

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        sizes = ", ".join(f"{symbol}={length}" for symbol, length in self.count.items())
        return f"{self.ir_type!r}({sizes}, device='{self.device.name}')"

    def fields(self) -> Iterator[tuple[str, array]]:
        """(name, array) of each field, in the order of declaration."""
        return iter(self._fields.items())

    @property
    def nbytes(self) -> int:
        """Bytes of the blocks that hold all fields."""
        return sum({field.block.ptr: field.block.nbytes for field in self._fields.values()}.values())

    def resize(self, count: int | Mapping[str, int], keep: bool = True) -> None:
        """Change the lengths of some dimensions; new elements are zero. With `keep=False` all their elements are zero.

        Nothing moves, and the generation stays, when every length stays as it is.
        """
        wanted = self._checked(count)
        changed = [symbol for symbol, length in wanted.items() if self.count[symbol] != length]
        if not changed:
            return
        if recording.captures:
            recording.refuse("Table.resize", "the sizes of tables are fixed while a graph is captured")
        old = {symbol: self.count[symbol] for symbol in changed}
        self.count.update(wanted)
        for symbol in changed:
            if wanted[symbol] <= self.room.get(symbol, 0):
                for field in self._fields_of(symbol):
                    field.shape = (wanted[symbol],)
                    field.store(0, slice(old[symbol] if keep else 0, None))
            else:
                self._move(symbol, keep)
        self._publish()
        self._tell()

    def reserve(self, room: Mapping[str, int]) -> None:
        """Room for so many rows of some dimensions: up to there, `resize` moves nothing."""
        wanted = self._checked(room)
        larger = {s: n for s, n in wanted.items() if n > max(self.count[s], self.room.get(s, 0))}
        if not larger:
            return
        if recording.captures:
            recording.refuse("Table.reserve", "the sizes of tables are fixed while a graph is captured")
        self.room.update(larger)
        for symbol in larger:
            self._move(symbol, True)
        self._publish()
        self._tell()

    def _move(self, symbol: str, keep: bool) -> None:
        """The fields of one dimension to a new block."""
        old = [field[:] for field in self._fields_of(symbol)]
        self._place(symbol)
        for field, before in zip(self._fields_of(symbol), old, strict=True):
            kept = min(len(before), len(field)) if keep else 0
            field.store(before.numpy()[:kept], slice(kept))

    def _tell(self) -> None:
        self.generation += 1
        for dependent in self.dependents:
            dependent.invalidate()

    def copy_from(self, other: Table) -> None:
        """Take over lengths and elements of a table of the same type."""
        if other.ir_type != self.ir_type:
            raise TypeError(f"{self.ir_type!r} cannot be copied from {other.ir_type!r}")
        self.resize(other.count, keep=False)
        for field, source in zip(self._fields.values(), other._fields.values(), strict=True):
            field.assign(source)

    def clone(self, device: Any = None) -> Table:
        """A new table with the same lengths and elements."""
        copy = type(self)(self.count, self.device if device is None else device)
        copy.copy_from(self)
        return copy

    def hash(self) -> str:
        """32 hex digits over names, lengths and bytes of all fields: equal exactly when the elements' bits are."""
        digest = hashlib.blake2b(digest_size=16)
        for name, field in self._fields.items():
            digest.update(f"{name}:{field.element!r}[{len(field)}]".encode())
            digest.update(field.numpy().tobytes())
        return digest.hexdigest()


def make_table(
    name: str, fields: Iterable[tuple[str, Any, str]], doc: str | None = None, module: str | None = None
) -> Any:
    """The table class with these fields (name, dtype, dimension symbol); equal calls give types that compare equal.

    dtype: a scalar type, vector, matrix, quaternion or transform class. Raises TypeError for any other, ValueError for
    a field name that is taken.
    """
    rows: list[tuple[str, types.Type, str]] = []
    for field, dtype, symbol in fields:
        element = dtypes.resolve(dtype)[1]
        if types.components(element) is None:
            raise TypeError(f"table {name}: field '{field}' cannot be a {element!r}; flatten structs into fields")
        if field in _RESERVED or field.startswith("_") or field in {row[0] for row in rows}:
            raise ValueError(f"table {name}: the field name '{field}' is taken")
        rows.append((field, element, symbol))
    if not rows:
        raise TypeError(f"table {name} has no fields")
    ir_type = types.Table(name, tuple(rows))
    ir_type = _known.setdefault(ir_type, ir_type)
    caller = module or sys._getframe(1).f_globals.get("__name__", __name__)
    return type(name, (Table,), {"ir_type": ir_type, "__doc__": doc or Table.__doc__, "__module__": caller})


def table(cls: type) -> Any:
    """Turns a class of annotated fields into a table whose fields all have the same length."""
    frame = sys._getframe(1)
    notes = inspect.get_annotations(cls, eval_str=True, globals=frame.f_globals, locals=frame.f_locals)
    rows = [(field, dtype, DEFAULT_SYMBOL) for field, dtype in notes.items()]
    return make_table(cls.__name__, rows, cls.__doc__, cls.__module__)
