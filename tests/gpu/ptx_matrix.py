"""Compiles every primitive, cast and atomic on every type to PTX; run as a program, since a wrong one ends the process.

    python -m tests.gpu.ptx_matrix sm_75 [--assemble]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from engine.compiler import types as T
from engine.compiler.assemble_ptx import assemble
from engine.compiler.ir import Function
from engine.compiler.ops import ATOMICS, ELEMENTWISE
from engine.compiler.pipeline import Options, compile_kernel
from engine.compiler.target_ptx import ptx_target
from engine.errors import CompileError
from tests.compiler.hir_builder import Builder


def primitives(t: T.Scalar, constant: object) -> Function:
    """All primitives of a type; `constant` takes the place of the second operand where it is not None."""
    names = [name for name, row in ELEMENTWISE.items() if t.kind in row.accepts]
    results = [T.bool_ if ELEMENTWISE[n].result == "bool" else t for n in names]
    b = Builder(f"all_{t}", *[(c, T.Array(t)) for c in "abc"], *[(n, T.Array(r)) for n, r in zip(names, results)])
    i = b.tid()
    operands = [b.load(p, i) for p in b.params[:3]]
    if constant is not None:
        operands[1] = b.const(t, constant)
    for name, out in zip(names, b.params[3:]):
        b.store(out, i, b.ew(name, *operands[: ELEMENTWISE[name].arity]))
    return b.fn


def casts(t: T.Scalar) -> Function:
    b = Builder(f"casts_{t}", ("x", T.Array(t)), *[(f"to_{s}", T.Array(s)) for s in T.SCALARS])
    i = b.tid()
    x = b.load(b.params[0], i)
    for out, s in zip(b.params[1:], T.SCALARS):
        b.store(out, i, b.cast(s, x))
    return b.fn


def atomic(t: T.Scalar, name: str) -> Function:
    b = Builder(f"atomic_{name}_{t}", ("x", T.Array(t)), ("y", T.Array(t)))
    i = b.tid()
    values = [b.load(b.params[1], i)] * (2 if name == "cas" else 1)
    b.store(b.params[1], i, b.op("atomic", t, b.params[0], i, *values, op=name, offset=0))
    return b.fn


def indices(ndim: int) -> Function:
    b = Builder(f"grid_{ndim}", ("x", T.Array(T.int32, ndim)))
    at = [b.tid(axis, ndim) for axis in range(ndim)]
    b.store(b.params[0], *at, at[-1])
    return b.fn


def masks(count: int) -> Function:
    """As many comparisons, packed into the bits of a number."""
    b = Builder(f"mask_{count}", ("x", T.Array(T.float32)), ("y", T.Array(T.uint32)))
    values = [b.load(b.params[0], b.i32(k)) for k in range(count)]
    b.store(b.params[1], b.tid(), b.op("bits", T.uint32, *[b.ew("lt", v, b.f32(1.0)) for v in values]))
    return b.fn


def programs() -> Iterator[Function]:
    for t in T.SCALARS:
        for constant in (None, False, True) if t.kind == "b" else (None, 0, 1):
            yield primitives(t, constant)
        yield casts(t)
        for name in ATOMICS:
            yield atomic(t, name)
    for ndim in range(1, 5):
        yield indices(ndim)
    for count in (1, 3, 8, 32):
        yield masks(count)


def main(arch: str, *flags: str) -> None:
    target, made, refused = ptx_target(arch), 0, 0
    for fn in programs():
        print(fn.name, flush=True)  # the last line of a process that dies says what killed it
        try:
            image = compile_kernel(fn, target, Options()).image
        except CompileError:
            refused += 1
            continue
        made += 1
        if "--assemble" in flags:
            assemble(image, arch)
    print(f"{made} compiled, {refused} refused")


if __name__ == "__main__":
    main(*sys.argv[1:])
