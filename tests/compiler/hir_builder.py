"""Builds HIR by hand for the tests of the passes, and runs the compiled result on NumPy arrays through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from engine.compiler import types as T
from engine.compiler.ir import Function, Op, Region
from engine.compiler.ops import COMPARISONS, ELEMENTWISE
from engine.compiler.pipeline import Compiled, compile_kernel
from engine.compiler.target_host import host_target


class Builder:
    """A function under construction; ops go to the innermost open region."""

    def __init__(self, name: str, *params: tuple[str, T.Type], result: T.Type = T.void, is_kernel: bool = True):
        ops = [Op("param", t, (), {"index": k, "name": n}) for k, (n, t) in enumerate(params)]
        self.fn = Function(name, ops, result=result, is_kernel=is_kernel)
        self.params = ops
        self.regions = [self.fn.body]

    def op(self, kind: str, t: T.Type = T.void, *operands: Op, regions: tuple[Region, ...] = (), **attrs: Any) -> Op:
        return self.regions[-1].append(Op(kind, t, operands, attrs, regions))

    def const(self, t: T.Type, value: Any) -> Op:
        return self.op("const", t, value=value)

    def f32(self, value: float) -> Op:
        return self.const(T.float32, float(np.float32(value)))

    def i32(self, value: int) -> Op:
        return self.const(T.int32, value)

    def tid(self, axis: int = 0, ndim: int = 1) -> Op:
        return self.op("tid", T.int32, axis=axis, ndim=ndim)

    def ew(self, kind: str, *operands: Op) -> Op:
        assert kind in ELEMENTWISE
        return self.op(kind, T.bool_ if kind in COMPARISONS else operands[0].type, *operands)

    def cast(self, t: T.Type, v: Op) -> Op:
        return self.op("cast", t, v)

    def load(self, array: Op, *indices: Op) -> Op:
        return self.op("load", array.type.dtype, array, *indices)

    def store(self, array: Op, *rest: Op, **attrs: Any) -> Op:
        return self.op("store", T.void, array, *rest, **attrs)

    def var(self, name: str, value: Op) -> Op:
        slot = self.op("slot", value.type, name=name)
        self.set(slot, value)
        return slot

    def get(self, slot: Op) -> Op:
        return self.op("get", slot.type, slot)

    def set(self, slot: Op, value: Op) -> Op:
        return self.op("set", T.void, slot, value)

    def call(self, callee: Function, *args: Op) -> Op:
        return self.op("call", callee.result, *args, callee=callee)

    def ret(self, *values: Op) -> Op:
        return self.op("return", T.void, *values)

    @contextmanager
    def into(self, region: Region) -> Iterator[None]:
        self.regions.append(region)
        yield
        self.regions.pop()

    @contextmanager
    def if_(self, condition: Op) -> Iterator[Region]:
        """Opens the then branch; yields the region of the else branch."""
        then, other = Region(), Region()
        self.op("if", T.void, condition, regions=(then, other))
        with self.into(then):
            yield other

    @contextmanager
    def for_(self, start: Op, stop: Op, step: Op) -> Iterator[Op]:
        body = Region()
        self.op("for", T.void, start, stop, step, regions=(body,))
        with self.into(body):
            yield self.op("index", start.type)

    @contextmanager
    def while_(self, condition: Any) -> Iterator[None]:
        """`condition()` builds the condition and returns it."""
        test, body = Region(), Region()
        self.op("while", regions=(test, body))
        with self.into(test):
            self.op("condition", T.void, condition())
        with self.into(body):
            yield


_CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def pack(compiled: Compiled, dim: tuple[int, ...], args: list[Any]) -> Any:
    """The parameter block: arrays are NumPy arrays (aos; a vector dtype has one more axis), tables are dicts."""
    block = np.zeros(compiled.abi.size, np.uint8)
    block[:32].view(np.int64)[: len(dim)] = dim
    for slot in compiled.abi.slots:
        value = _leaf(args[slot.param], slot.path)
        dtype = np.dtype(np.int64) if isinstance(slot.type, T.Pointer) else slot.type.numpy
        block[slot.offset : slot.offset + dtype.itemsize].view(dtype)[0] = value
    return block


def _leaf(value: Any, path: tuple[Any, ...]) -> Any:
    match path:
        case ():
            return value
        case ("data",):
            return value.ctypes.data
        case ("shape", d):
            return value.shape[d]
        case ("stride", d):
            return value.strides[d]
        case ("plane", k):
            return value[..., k].ctypes.data
        case ("field", name, "plane", k):
            return value[name][k].ctypes.data
        case ("count", symbol):
            return value[symbol]
        case (key, *rest):
            return _leaf(value[key], tuple(rest))
    raise KeyError(path)


def run(fn: Function, dim: int | tuple[int, ...], *args: Any, piece: int = 0, **options: Any) -> Compiled:
    """Compiles and runs the whole grid on the calling thread, or in pieces of so many threads, the last one first."""
    compiled = compile_kernel(fn, **options)
    shape = dim if isinstance(dim, tuple) else (dim,)
    block = pack(compiled, shape, list(args))
    size = int(np.prod(shape))
    for begin in reversed(range(0, size, piece or max(size, 1))):
        end = min(begin + (piece or size), size)
        _CALL(host_target().call_address)(compiled.address, block.ctypes.data, begin, end)
    return compiled
