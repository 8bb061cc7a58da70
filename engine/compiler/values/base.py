"""What all Python-scope values share: storage of the components, element access, comparison, NumPy conversion."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Self

import numpy as np

from engine.compiler import ops, types
from engine.compiler.types import Scalar, Type


def scalar_of(item: Any, dtype: Scalar) -> Any:
    """One stored component as users see it: a Python number where that keeps the type, else a NumPy scalar.

    Python's float, int and bool mean float32, int32 and bool in the language; other types must stay recognisable.
    """
    if dtype.name == "bfloat16":
        return types.BFloat16(types.bfloat16_numbers(item))
    return item.item() if dtype in (types.float32, types.int32, types.bool_) else item


def component_array(items: Any, dtype: Scalar, what: str) -> np.ndarray:
    """`items` as an array of `dtype`. Raises ValueError for an integer out of range, TypeError for a non-number."""
    found = np.asarray(items)
    if dtype.name == "bfloat16":
        return types.bfloat16_bits(found) if found.dtype.kind == "f" or found.dtype != np.uint16 else found
    if dtype.is_int and found.dtype.kind == "f" and not isinstance(items, np.ndarray | np.generic):
        found = np.asarray(items, object)  # NumPy takes integers on both sides of 2**63 together for floats
        found = found.astype(dtype.numpy) if _fits(found.flat, dtype) else np.asarray(items)
    if found.dtype.kind not in "biuf":
        raise TypeError(f"{what} takes numbers, got {items!r}")
    if dtype.is_int:
        low, high = dtype.range
        if found.size and not (low <= found.min() and found.max() <= high):
            raise ValueError(f"{what}: {items!r} does not fit {dtype}")
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            raise ValueError(f"{what}: {items!r} is not a whole number")
    with np.errstate(over="ignore"):
        return found.astype(dtype.numpy)


def _fits(numbers: Iterable[Any], dtype: Scalar) -> bool:
    low, high = dtype.range
    return all(isinstance(n, int | np.integer) and low <= n <= high for n in numbers)


def position(index: Any) -> int:
    """An index as an int. Raises KeyError for anything else."""
    try:
        return operator.index(index)
    except TypeError:
        raise KeyError(f"Invalid key {index!r}, expected int or slice") from None


def sliced(dtype: Scalar, components: np.ndarray) -> Any:
    """The vector of some components of a value; its class is made by what `linear` has put here."""
    return _VECTOR_CLASS[0](dtype, components.size)._of(components)


_VECTOR_CLASS: list[Callable[[Scalar, int], Any]] = []


class Value:
    """A fixed number of components of one scalar type. Subclasses are made once per IR type by their factory.

    Components lie in one flat array of the component type, so that stores round exactly as they do in a kernel.
    """

    __slots__ = ("__dict__", "_c")  # code written for Warp hangs attributes on values
    ir_type: ClassVar[Any]
    dtype: ClassVar[Scalar]
    size: ClassVar[int]  # number of components
    __array_ufunc__ = None  # NumPy scalars on the left hand leave the operation to us

    _c: np.ndarray

    def __init__(self, *args: Any):
        self._c = self._components(args)

    @classmethod
    def _components(cls, args: tuple[Any, ...]) -> np.ndarray:
        """The flat components that constructor arguments mean: nothing, all of them, or one sequence of them."""
        if not args:
            return np.zeros(cls.size, cls.dtype.numpy)
        items = args[0] if len(args) == 1 else args
        if isinstance(items, Value):
            items = items._c
        flat = component_array(items, cls.dtype, cls.__name__).reshape(-1)
        if flat.size != cls.size:
            raise ValueError(f"{cls.__name__} takes {cls.size} numbers, got {flat.size}")
        return flat

    @classmethod
    def _of(cls, components: np.ndarray) -> Self:
        """A value that owns `components` (flat, of the right type and size)."""
        self = cls.__new__(cls)
        self._c = components
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents as NumPy shows the value."""
        return (self.size,)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            part = self._c[index]
            return sliced(self.dtype, part.copy())
        return scalar_of(self._c[position(index)], self.dtype)

    def __setitem__(self, index: Any, item: Any) -> None:
        at = index if isinstance(index, slice) else position(index)
        self._c[at] = component_array(item, self.dtype, type(self).__name__)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self._c.reshape(self.shape)
        if copy is False and (dtype is None or dtype == array.dtype):
            return array
        return array.astype(array.dtype if dtype is None else dtype)

    def __bytes__(self) -> bytes:
        """The components as they lie in memory."""
        return self._c.tobytes()

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, Value):
            return self.ir_type == other.ir_type and bool((self._c == other._c).all())
        if isinstance(other, list | tuple | np.ndarray):
            return bool(np.array_equal(self._c.reshape(self.shape), np.asarray(other)))
        return NotImplemented

    def __hash__(self) -> int:
        return hash((self.ir_type, *self._c.tolist()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(str, self._c))})"

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self._c))}]"

    def __copy__(self) -> Self:
        return self._of(self._c.copy())

    def __deepcopy__(self, memo: Any) -> Self:
        return self._of(self._c.copy())

    def _same(self, other: Any) -> np.ndarray | None:
        """Components of an operand of this type, or None where it is not one."""
        if isinstance(other, Value):
            return other._c if other.ir_type == self.ir_type else None
        if isinstance(other, list | tuple | np.ndarray) and np.shape(other) == self.shape:
            return component_array(other, self.dtype, type(self).__name__).reshape(-1)
        return None

    def _number(self, other: Any) -> Any:
        """A scalar operand in the component type, or None where it is not a number that fits."""
        if isinstance(other, bool | np.bool_) or not isinstance(other, int | float | np.number):
            return None
        if isinstance(other, float | np.floating) and not self.dtype.is_float:
            return None
        return component_array(other, self.dtype, type(self).__name__)[()]

    def _by_component(self, op: str, *operands: Any) -> Self:
        """Primitive `op` applied to components; an operand may be one number for all of them."""
        return self._of(apply_op(op, self.dtype, self.size, *operands))

    def __add__(self, other: Any) -> Self:
        same = self._same(other)
        return NotImplemented if same is None else self._by_component("add", self._c, same)

    def __radd__(self, other: Any) -> Self:
        same = self._same(other)
        return NotImplemented if same is None else self._by_component("add", same, self._c)

    def __sub__(self, other: Any) -> Self:
        same = self._same(other)
        return NotImplemented if same is None else self._by_component("sub", self._c, same)

    def __rsub__(self, other: Any) -> Self:
        same = self._same(other)
        return NotImplemented if same is None else self._by_component("sub", same, self._c)

    def __mul__(self, other: Any) -> Any:
        number = self._number(other)
        return NotImplemented if number is None else self._by_component("mul", self._c, number)

    def __rmul__(self, other: Any) -> Any:
        number = self._number(other)
        return NotImplemented if number is None else self._by_component("mul", number, self._c)

    def __mod__(self, other: Any) -> Self:
        same = self._same(other)
        return NotImplemented if same is None else self._by_component("mod", self._c, same)

    def __truediv__(self, other: Any) -> Self:
        number = self._number(other)
        return NotImplemented if number is None else self._by_component("div", self._c, number)

    def __rtruediv__(self, other: Any) -> Self:
        number = self._number(other)
        return NotImplemented if number is None else self._by_component("div", number, self._c)

    def __neg__(self) -> Self:
        return self._of(-self._c)

    def __pos__(self) -> Self:
        return self.__copy__()


_ARRAY_OPS: dict[str, Callable[[Any, Any], Any]] = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


def apply_op(op: str, dtype: Scalar, size: int, *operands: Any) -> np.ndarray:
    """Elementwise primitive on arrays of `size` components or single numbers, with the meaning it has in a kernel."""
    with np.errstate(all="ignore"):
        if op == "div" and dtype.is_float:
            return np.asarray(np.divide(*operands), dtype.numpy)
        if op == "mod" and dtype.is_float:
            return np.asarray(np.mod(*operands), dtype.numpy)
        if op in _ARRAY_OPS:
            return np.asarray(_ARRAY_OPS[op](*operands), dtype.numpy)
    function = ops.ELEMENTWISE[op].numpy
    columns = [np.broadcast_to(np.asarray(o, dtype.numpy), (size,)) for o in operands]
    return np.array([function(*row) for row in zip(*columns, strict=True)], dtype.numpy)


# classes by IR type: filled by the factories, read by `value_class`
_CLASSES: dict[Type, Any] = {}


def register(ir_type: Type, cls: Any) -> Any:
    """Makes `cls` the class whose values have `ir_type`; returns the class that holds that place."""
    return _CLASSES.setdefault(ir_type, cls)


def registered(ir_type: Type) -> Any | None:
    """The class registered for `ir_type`, or None."""
    return _CLASSES.get(ir_type)


def make_class(base: type, name: str, ir_type: Type, **members: Any) -> Any:
    """A concrete subclass of `base` for `ir_type`, made once."""
    found = registered(ir_type)
    if found is not None:
        return found
    same = types.components(ir_type)
    assert same is not None, ir_type
    shape = (members["rows"], members["cols"]) if "rows" in members else (same[1],)
    # the underscored names are those by which code written for Warp asks
    body = {"__slots__": (), "ir_type": ir_type, "dtype": same[0], "size": same[1], "__module__": __name__,
            "_length_": same[1], "_shape_": shape, "_wp_scalar_type_": same[0], **members}  # fmt: skip
    return register(ir_type, type(name, (base,), body))
