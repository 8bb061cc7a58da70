"""What a launch's arguments are: their types, their scalars, and in the user's words why one does not fit."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.compiler import types, values
from engine.compiler.values.records import array_leaves
from engine.context import array_foreign as foreign
from engine.context import dtypes
from engine.context.array import array
from engine.errors import LaunchError

BFLOAT16_MAX = float(types.bfloat16_numbers(0x7F7F))
Params = Sequence[tuple[str, types.Type]]


def type_of(value: Any) -> types.Type | None:
    """The IR type that an argument has on its own, or None where it has none (lists, None, objects)."""
    try:
        kind = values.type_of(value)
    except TypeError:
        return None
    return None if isinstance(kind, types.Tuple) else kind


def leaf_values(value: Any, kind: types.Type) -> list[Any]:
    """The scalars of a by-value argument, in the order of `types.leaves`; raises TypeError where it does not fit."""
    if kind is types.bfloat16:
        return [types.BFloat16(value).bits]
    if isinstance(kind, types.Scalar):
        return [value]
    if isinstance(kind, types.Struct):
        return [leaf for name, ftype in kind.fields for leaf in leaf_values(getattr(value, name), ftype)]
    if isinstance(kind, types.Array):
        return array_leaves(value, kind)
    stored = dtypes.to_numpy(value, kind, flat=False)
    if stored.shape != dtypes.numpy_element(kind)[1]:
        raise TypeError(f"expected a {kind!r}, got {value!r}")
    flat: list[Any] = stored.ravel().tolist()
    return flat


def unset(params: Params) -> list[Any]:
    """An argument for each parameter before any is set: zero for numbers and values, None for arrays and tables."""
    found: list[Any] = []
    for _, kind in params:
        by_value = not isinstance(kind, types.Array | types.Table | types.Generic)
        found.append(values.structs.zero(kind) if by_value else None)
    return found


def with_missing(kernel: Any, args: Sequence[Any], device: Any) -> list[Any]:
    """The arguments with an array of no elements for each None, where the kernel asks whether there is an array."""
    found = []
    for (name, wanted), arg in zip(kernel.params, args, strict=False):
        if arg is None and isinstance(wanted, types.Array) and name in kernel.optional:
            arg = array(dtype=wanted.dtype, ndim=wanted.ndim, layout=wanted.layout, device=device)
        found.append(arg)
    return [*found, *args[len(found) :]]


def check(kernel: str, params: Params, args: Sequence[Any], device: Any) -> tuple[list[Any], list[types.Type]]:
    """The arguments, NumPy arrays wrapped, and the type of each; LaunchError names the first that does not fit."""
    if len(args) != len(params):
        if len(args) < len(params):
            name, kind = params[len(args)]
            raise LaunchError(
                kernel, name, _described(kind), "nothing", f"{len(args)} of {len(params)} arguments given"
            )
        names = ", ".join(name for name, _ in params)
        raise LaunchError(kernel, "inputs", f"{len(params)} arguments ({names})", f"{len(args)}")
    bound: dict[str, types.Type] = {}
    checked = [_check_one(kernel, *param, arg, device, bound) for param, arg in zip(params, args, strict=True)]
    return [value for value, _ in checked], [kind for _, kind in checked]


def _check_one(
    kernel: str, name: str, wanted: types.Type, value: Any, device: Any, bound: dict[str, types.Type]
) -> tuple[Any, types.Type]:
    if not isinstance(value, array) and _takes_array(wanted):
        value = _shared(kernel, name, wanted, value, device)
    if isinstance(wanted, types.Generic | types.Array | types.Table):
        kind = type_of(value)
        if kind is None or not types.matches(wanted, kind, bound):
            raise LaunchError(kernel, name, _described(wanted), _seen(value), _hint(wanted, value))
        if isinstance(kind, types.Array | types.Table) and value.device is not device:
            raise LaunchError(kernel, name, f"memory of device '{device.name}'", f"memory of '{value.device.name}'")
        if isinstance(kind, types.Array):
            wanted = dtypes.array_type(kind.dtype, kind.ndim, kind.layout, type(kind))
        else:
            wanted = kind
    if isinstance(wanted, types.Scalar):
        return _check_scalar(kernel, name, wanted, value), wanted
    if not isinstance(wanted, types.Array | types.Table):
        value = _check_aggregate(kernel, name, wanted, value)
    return value, wanted


def _takes_array(wanted: types.Type) -> bool:
    return isinstance(wanted, types.Array) or (isinstance(wanted, types.Generic) and wanted.kind in ("any", "array"))


def _shared(kernel: str, name: str, wanted: types.Type, value: Any, device: Any) -> Any:
    """What describes its memory (NumPy arrays, tensors) as an array over it; anything else as it is."""
    layout = wanted.layout if isinstance(wanted, types.Array) else "aos"
    try:
        data = foreign.as_numpy(value)
        if not isinstance(data, np.ndarray):
            return value
        dtype = wanted.dtype if isinstance(wanted, types.Array) and types.is_concrete(wanted.dtype) else data.dtype
        return array(data, dtype, device=device, copy=False, layout=layout)
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        raise LaunchError(kernel, name, _described(wanted), _seen(value), str(error)) from None


def _check_scalar(kernel: str, name: str, wanted: types.Scalar, value: Any) -> Any:
    if wanted.kind == "b":
        if isinstance(value, bool | np.bool_) or (isinstance(value, int) and value in (0, 1)):
            return bool(value)
    elif wanted.is_int:
        try:
            whole = operator.index(value)
        except TypeError:
            raise LaunchError(kernel, name, repr(wanted), _seen(value), _hint(wanted, value)) from None
        low, high = wanted.range
        if low <= whole <= high:
            return whole
        raise LaunchError(kernel, name, f"{wanted!r} ({low} … {high})", str(whole))
    elif isinstance(value, int | float | np.integer | np.floating):
        largest = BFLOAT16_MAX if wanted is types.bfloat16 else float(np.finfo(wanted.numpy).max)
        try:
            number = float(value)
        except OverflowError:
            number = math.nan
        if abs(number) <= largest or isinstance(value, float | np.floating) and not math.isfinite(number):
            return types.BFloat16(number) if wanted is types.bfloat16 else number
        raise LaunchError(kernel, name, f"{wanted!r} (-{largest:.9g} … {largest:.9g})", str(value))
    raise LaunchError(kernel, name, repr(wanted), _seen(value), _hint(wanted, value))


def _check_aggregate(kernel: str, name: str, wanted: types.Type, value: Any) -> Any:
    own = type_of(value)
    if own is not None and own != wanted:
        raise LaunchError(kernel, name, repr(wanted), _seen(value))
    try:
        is_sequence = isinstance(value, tuple | list | np.ndarray)
        if isinstance(wanted, types.Matrix) and is_sequence and np.ndim(value) in (1, 2):  # numbers in a row, or rows
            if np.ndim(value) == 2 and np.shape(value) != (wanted.rows, wanted.cols):
                raise ValueError
            value = values.value_class(wanted)(np.reshape(value, -1))
        leaves = leaf_values(value, wanted)
    except (TypeError, ValueError, AttributeError):
        raise LaunchError(kernel, name, repr(wanted), _seen(value)) from None
    for leaf, (_, scalar) in zip(leaves, types.leaves(wanted), strict=True):
        if isinstance(scalar, types.Scalar):
            _check_scalar(kernel, name, scalar, leaf)
    return leaves if own is None and not isinstance(wanted, types.Matrix) else value


def _described(kind: types.Type) -> str:
    return f"a table {kind!r}" if isinstance(kind, types.Table) else repr(kind)


def _seen(value: Any) -> str:
    """What came, as short as it can be said."""
    if isinstance(value, np.ndarray):
        return f"a NumPy array of {value.dtype}, shape {value.shape}"
    kind = type_of(value)
    if isinstance(value, bool | int | float | np.generic) or value is None:
        return f"{value!r}"
    if isinstance(kind, types.Array | types.Table):
        return repr(kind)
    if kind is not None:
        return f"a {kind!r}"
    return f"a {type(value).__name__}"


def _hint(wanted: types.Type, value: Any) -> str:
    if isinstance(wanted, types.Array) and isinstance(value, list | tuple):
        return f"make one with engine.array(data, dtype={wanted.dtype!r})"
    if isinstance(wanted, types.Array) and isinstance(type_of(value), types.Array):
        have = type_of(value)
        assert isinstance(have, types.Array)
        if have.dtype == wanted.dtype and have.ndim == wanted.ndim:
            return f"convert it with engine.clone(a, layout='{wanted.layout}')"
    if isinstance(wanted, types.Scalar) and wanted.is_int and isinstance(value, float):
        return "round or int() it first"
    return ""
