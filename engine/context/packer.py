"""From Python arguments to the launch block of a kernel: one generated function per kernel, argument types and device.

    header    entry address of the kernel (on a device that calls kernels by other means: threads of a block), number of
              threads, address of an int32 count or 0, address of the fault record or 0            (4 x int64)
    dims      extents of the grid                                                                  (4 x int64)
    slots     8 bytes for each scalar or pointer that the kernel uses (`compiled.abi.slots`)

The kernel's parameters begin at the dims. For `saxpy(x: array(dtype=float), y: array(dtype=float), a: float)` the
generated function reads

    def pack(size, count, d0, d1, d2, d3, args, block_dim=256):
        (a0, a1, a2,) = args
        if a0.ir_type is not T0 or a0.device is not device or a0.strides[-1] != 4: raise Mismatch
        if a1.ir_type is not T1 or a1.device is not device or a1.strides[-1] != 4: raise Mismatch
        return block(entry, size, count, record, d0, d1, d2, d3, a0.ptr, a1.ptr, a2)

where `block` is `struct.Struct(...).pack`, which also refuses an integer out of range or a float for an integer. Any
refusal only says that something is wrong; `arguments.check` then finds out what, in the user's words.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from engine.compiler import types
from engine.compiler.ops import LAUNCH
from engine.compiler.scalarize import dense_stride
from engine.compiler.values import value_class
from engine.context import arguments

HEADER_BYTES = 32
DIMS_BYTES = 32
SLOT_BYTES = 8
CODES = {
    "bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H", "uint32": "I",
    "uint64": "Q", "float16": "e", "float32": "f", "float64": "d", "bfloat16": "H",
}  # fmt: skip

Pack = Callable[..., bytes]


class Mismatch(Exception):
    """An argument is not what the packer was made for."""


REFUSALS = (Mismatch, struct.error, TypeError, ValueError, AttributeError, OverflowError)


def make_packer(
    arg_types: Sequence[types.Type], exact: Sequence[Any], dense: Sequence[int], slots: Sequence[Any], device: Any,
    entry: int, record: int = 0,
) -> Pack:  # fmt: skip
    """The function that checks and packs arguments of these types for the kernel whose code starts at `entry`.

    `exact[i]` is the Python class that argument i must have, or None: a scalar of a generic parameter, where an int and
    a float lead to different code. `dense` are the arrays whose last stride is a constant of the code. `record` is the
    address of the fault record of a kernel with checks.
    """
    names = [f"a{i}" for i in range(len(arg_types))]
    scope: dict[str, Any] = {"Mismatch": Mismatch, "device": device, "entry": entry, "record": record,
                             "flatten": arguments.leaf_values}
    lines = [f"    ({', '.join(names)},) = args"] if names else ["    if args: raise Mismatch"]
    wanted: list[dict[Any, int]] = [{} for _ in arg_types]  # per parameter: path → number of the leaf in it
    for i, arg_type in enumerate(arg_types):
        wanted[i] = {path: leaf for leaf, (path, _) in enumerate(types.leaves(arg_type))}
        used = [slot.path for slot in slots if slot.param == i]
        lines += [f"    {line}" for line in _checks(i, arg_type, exact[i], i in dense, bool(used), scope)]
        if record and isinstance(arg_type, types.IndexedArray):
            lines.append(f"    a{i}.check_positions()")
    values = [
        "block_dim" if slot.param == LAUNCH else _value(slot, arg_types[slot.param], wanted[slot.param])
        for slot in slots
    ]
    scope["block"] = block_format(slots).pack
    first = "entry" if entry else "block_dim"
    lines.append(f"    return block({', '.join([first, 'size, count, record, d0, d1, d2, d3', *values])})")
    source = "\n".join(["def pack(size, count, d0, d1, d2, d3, args, block_dim=256):", *lines])
    exec(compile(source, "<launch packer>", "exec"), scope)
    pack: Pack = scope["pack"]
    return pack


def block_format(slots: Sequence[Any]) -> struct.Struct:
    """The launch block's layout; slots come in the order of their offsets."""
    parts, end = ["=4q4q"], DIMS_BYTES
    for slot in slots:
        code = "Q" if isinstance(slot.type, types.Pointer) else CODES[slot.type.name]
        size = struct.calcsize("=" + code)
        parts.append(f"{slot.offset - end}x{code}{SLOT_BYTES - size}x")
        end = slot.offset + SLOT_BYTES
    return struct.Struct("".join(parts))


def _checks(i: int, arg_type: types.Type, exact: Any, dense: bool, used: bool, scope: dict[str, Any]) -> list[str]:
    """Statements that refuse a wrong argument i and take apart one that is an aggregate."""
    name = f"a{i}"
    scope[f"T{i}"], scope[f"E{i}"] = arg_type, exact
    if isinstance(arg_type, types.Array):
        gaps = f" or {name}.strides[-1] != {dense_stride(arg_type)}" if dense else ""
        return [f"if {name}.ir_type is not T{i} or {name}.device is not device{gaps}: raise Mismatch"]
    if isinstance(arg_type, types.Table):
        checks = [f"if {name}.ir_type is not T{i} or {name}.device is not device: raise Mismatch"]
        return [*checks, f"p{i} = {name}.pointers", f"c{i} = {name}.counts"] if used else checks
    if isinstance(arg_type, types.Scalar):
        if exact is not None:
            return [f"if {name}.__class__ is not E{i}: raise Mismatch"]
        if arg_type.kind == "b":
            return [f"if {name}.__class__ is not bool: raise Mismatch"]
        if not used:  # `block` does not see it, so it is looked at here
            scope[f"S{i}"] = struct.Struct("=" + CODES[arg_type.name]).pack
            return [f"S{i}({name})"]
        return []
    checks = [f"if {name}.ir_type != T{i}: raise Mismatch"] if exact is not None else []
    if types.components(arg_type) is None:
        return [*checks, f"v{i} = flatten({name}, T{i})"]
    scope[f"V{i}"] = value_class(arg_type)
    return [*checks, f"v{i} = {name}._c.tolist() if {name}.__class__ is V{i} else flatten({name}, T{i})"]


def _value(slot: Any, arg_type: types.Type, leaf_number: dict[Any, int]) -> str:
    """The expression of one slot's value."""
    i, path = slot.param, slot.path
    if isinstance(arg_type, types.Array):
        return array_leaf(f"a{i}", path)
    if isinstance(arg_type, types.Table):
        if path[0] == "count":
            return f"c{i}[{arg_type.symbols.index(path[1])}]"
        return f"p{i}[{leaf_number[path]}]"
    if isinstance(arg_type, types.Scalar):
        return f"a{i}.bits" if arg_type is types.bfloat16 else f"a{i}"
    return f"v{i}[{leaf_number[path]}]"


def array_leaf(name: str, path: tuple[Any, ...]) -> str:
    """The expression of one leaf of the array called `name`."""
    match path:
        case ("data",) | ("plane", 0):
            return f"{name}.ptr"
        case ("plane", k):
            return f"{name}.ptr + {k} * {name}.plane_stride"
        case ("shape", d):
            return f"{name}.shape[{d}]"
        case ("stride", d):
            return f"{name}.strides[{d}]"
        case ("index", d):
            return f"{name}.positions[{d}].ptr"
    raise AssertionError(f"{path=} is no leaf of an array")
