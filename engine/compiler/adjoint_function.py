"""`grad(f)` in kernels: a function of values becomes the function of its derivatives (HIR to HIR).

The function is brought to MIR, reversed like a kernel whose parameters are active, and handed back as a function of
scalars that takes the same arguments. There is no tape inside a kernel: what would have to be saved is refused.
"""

from __future__ import annotations

from engine.compiler import types
from engine.compiler.adjoint import Demand, Reverse
from engine.compiler.adjoint_flow import is_float, to_flow
from engine.compiler.diagnostics import error_at
from engine.compiler.inline import inline
from engine.compiler.ir import Function, Op, Region
from engine.compiler.normalize import normalize
from engine.compiler.scalarize import scalarize
from engine.compiler.simplify import simplify


def gradient_function(fn: Function, fma: bool) -> Function:
    """The function of the same parameters that gives the derivative of (the sum of) its results by each float one.

    Raises CompileError for parameters that are no numbers, vectors, matrices or quaternions, and for loops whose values
    would have to be saved.
    """
    for p in fn.params:
        if types.components(p.type) is None:
            raise error_at(fn, None, f"grad() does not take functions of {p.type!r}")
    plain = normalize(fn)
    *ops, end = plain.body.ops
    body = Region([*ops, Op("yield", types.void, end.operands)])
    mir = simplify(scalarize(inline(Function(fn.name, plain.params, body, types.void, fn.file, fn.line))), fma)
    inputs = frozenset(p for p in mir.params if is_float(p.type))
    reverse = Reverse(to_flow(mir), Demand(frozenset(), frozenset()), len(fn.params), fma, inputs)
    ops = reverse.function_body()
    if any(frame.saved for frame in reverse.frames.values()):
        reason = "would have to save what its loops overwrite: record a launch on a tape instead"
        raise error_at(fn, None, f"grad({fn.name}) {reason}")
    head: list[Op] = []
    for p in mir.params:
        whole = fn.params[p.attrs["index"]]
        p.kind, p.attrs = "extract", {"index": p.attrs["path"][0]} if p.attrs["path"] else {}
        p.operands = (whole,)
        if p.attrs:
            head.append(p)
    by_leaf = {(p.operands[0], p.attrs.get("index", 0)): reverse.final.get(p) for p in mir.params}
    results = [_assembled(p, by_leaf, ops) for p in fn.params if is_float(types.leaves(p.type)[0][1])]
    made = results[0] if len(results) == 1 else Op("make", types.Tuple(tuple(r.type for r in results)), tuple(results))
    tail = [Op("return", types.void, (made,))] if len(results) == 1 else [made, Op("return", types.void, (made,))]
    whole_names = {p: p.operands[0] for p in mir.params if not p.attrs}  # scalars are their own leaf
    _rename(Region(ops), whole_names)
    tail = [op for op in tail if op not in ops]
    made_ops = Region([*head, *ops, *tail])
    return Function(f"grad({fn.name})", fn.params, made_ops, made.type, fn.file, fn.line)


def _assembled(p: Op, by_leaf: dict[tuple[Op, int], Op | None], ops: list[Op]) -> Op:
    """The derivative by a parameter, from those by its components."""
    scalar = types.leaves(p.type)[0][1]
    parts = []
    for k in range(len(types.leaves(p.type))):
        part = by_leaf.get((p, k))
        if part is None:
            part = Op("const", scalar, (), {"value": 0.0})
            ops.append(part)
        parts.append(part)
    if isinstance(p.type, types.Scalar):
        return parts[0]
    made = Op("make", p.type, tuple(parts))
    ops.append(made)
    return made


def _rename(region: Region, names: dict[Op, Op]) -> None:
    for op in region.walk():
        op.operands = tuple([names.get(v, v) for v in op.operands])


