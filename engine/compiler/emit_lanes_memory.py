"""Memory accesses of the lanes shape: each in the widest form that its address allows (for `emit_lanes`).

    all lanes at one address        a scalar access
    lanes side by side              a vector access (planes, and arrays of scalars, at a contiguous index)
    elements side by side           full-width loads, and shuffles that pick the leaves (arrays of vectors)
    anything else                   one access for each lane and piece of an element: pieces are up to four leaves,
                                    which a transposition turns into vectors

Accesses to leaves of one element that stand together are emitted together. Lanes that do not run must touch nothing:
they get the address of a scratch place instead, which costs no branch. Lanes store in ascending order, as threads do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from engine.compiler.emit_ops import LLVM_TYPES, literal
from engine.compiler.emit_thread import Thread
from engine.compiler.ir import Op, Region
from engine.compiler.types import LocalArray, Scalar
from engine.compiler.uniform import constant_stride

if TYPE_CHECKING:
    from engine.compiler.emit_lanes import Lanes

PIECE = 4  # leaves of four bytes that one access takes


# which accesses go together


class Grouping(Protocol):
    """What remembers groups: the emitter, and the cost model."""

    groups: dict[Op, list[Op]]
    grouped: set[Op]


def group(e: Grouping, region: Region) -> None:
    """Notes the groups of a region: loads with the first of them, stores with the last."""
    loads: dict[tuple[Op, ...], list[Op]] = {}
    stores: list[Op] = []
    for op in region.ops:
        kind = op.kind
        if kind == "load":
            stores = []
            loads.setdefault(op.operands, []).append(op)
        elif kind == "store":
            _close(e, loads)
            if stores and stores[-1].operands[:-1] == op.operands[:-1]:
                stores.append(op)
                e.grouped.add(stores[-2])
                e.groups.pop(stores[-2], None)
            else:
                stores = [op]
            e.groups[op] = stores
        elif kind == "atomic" or op.regions:
            _close(e, loads)
            stores = []
    _close(e, loads)


def _close(e: Grouping, loads: dict[tuple[Op, ...], list[Op]]) -> None:
    for ops in loads.values():
        e.groups[ops[0]] = ops
        e.grouped.update(ops[1:])
    loads.clear()


# addresses


def first_place(e: Lanes, op: Op) -> str:
    """Address of lane 0's element. Not `inbounds`: lane 0 may be one that does not run."""
    n = op.attrs["ndim"]
    total = ""
    for index, by in zip(op.operands[1 : 1 + n], op.operands[1 + n : 1 + 2 * n], strict=True):
        term = e.value(f"mul i64 {e.wide(index)}, {e.names[by]}")
        total = e.value(f"add i64 {total}, {term}") if total else term
    base = e.names[op.operands[0]]
    return e.value(f"getelementptr i8, ptr {base}, i64 {total}") if total else base


def lane_places(e: Lanes, op: Op, reach: int) -> list[str]:
    """Address of each lane's element. Of lanes that do not run: one that may be read, but for a store a scratch place
    of `reach` bytes."""
    by = e.analysis.lane_bytes(op)
    if by is not None and not e.mask:
        first = first_place(e, op)
        return [e.value(f"getelementptr i8, ptr {first}, i64 {by * lane}") for lane in range(e.width)]
    if e.stride(op.operands[0]) == 0 and (op.kind == "load" or not e.mask):
        base = e.names[op.operands[0]]
        return [e.value(f"getelementptr i8, ptr {base}, i64 {offset}") for offset in lane_offsets(e, op)]
    places = place_vector(e, op)
    vt = f"<{e.width} x ptr>"
    if e.mask:
        e.scratch_bytes = max(e.scratch_bytes, reach, 64)
        places = e.chosen(e.mask, vt, places, e.splat("ptr", "%scratch"))
    return [e.lane(vt, places, lane) for lane in range(e.width)]


def lane_offsets(e: Lanes, op: Op) -> list[str]:
    """Bytes from the array's start to each lane's element; shared by all arrays that are read at the same index.

    A lane that does not run takes the index of the first that does: whatever the array, it may be read there.
    """
    n = op.attrs["ndim"]
    key = (e.mask, op.operands[1 : 1 + 2 * n])
    known = e.offsets.get(key)
    if known is None:
        total, vt = "", f"<{e.width} x i64>"
        for index, by in zip(op.operands[1 : 1 + n], op.operands[1 + n : 1 + 2 * n], strict=True):
            size = constant_stride(by)
            factor = f"splat (i64 {size})" if size is not None else e.vector(by)
            term = e.value(f"mul {vt} {safe_index(e, index)}, {factor}")
            total = e.value(f"add {vt} {total}, {term}") if total else term
        known = e.offsets[key] = [e.lane(vt, total, lane) for lane in range(e.width)]
        e.offset_keys.append(key)
    return known


def safe_index(e: Lanes, index: Op) -> str:
    """The index of all lanes as 64-bit integers, valid in lanes that do not run, too."""
    if not e.mask or e.stride(index) == 0:
        return wide_index(e, index)
    t: Scalar = index.type  # type: ignore[assignment]
    lt, vt, v = LLVM_TYPES[t.name], e.vector_type(t), e.vector(index)
    bits = e.value(f"zext i{e.width} {e.mask_bits(e.mask)} to i64")
    first = e.intrinsic("llvm.cttz.i64", "i64", f"i64 {bits}", "i1 false")
    lane = e.value(f"and i64 {first}, {e.width - 1}")
    return widened(e, t, e.chosen(e.mask, vt, v, e.splat(lt, e.lane(vt, v, lane))))


def place_vector(e: Lanes, op: Op) -> str:
    """Addresses of all lanes' elements as one vector."""
    n, p = op.attrs["ndim"], op.operands[0]
    vt = f"<{e.width} x i64>"
    base = e.names[p] if e.stride(p) == 0 else ""
    total = ""
    for index, by in zip(op.operands[1 : 1 + n], op.operands[1 + n : 1 + 2 * n], strict=True):
        if base and e.stride(index) == 0 and e.stride(by) == 0:
            term = e.value(f"mul i64 {e.wide(index)}, {e.names[by]}")
            base = e.value(f"getelementptr i8, ptr {base}, i64 {term}")
            continue
        size = constant_stride(by)
        factor = f"splat (i64 {size})" if size is not None else e.vector(by)
        term = e.value(f"mul {vt} {wide_index(e, index)}, {factor}")
        total = e.value(f"add {vt} {total}, {term}") if total else term
    where = f"ptr {base}" if base else f"<{e.width} x ptr> {e.vector(p)}"
    return e.value(f"getelementptr i8, {where}, {vt} {total or 'zeroinitializer'}")


def wide_index(e: Lanes, index: Op) -> str:
    """An index of all lanes as 64-bit integers."""
    return widened(e, index.type, e.vector(index))  # type: ignore[arg-type]


def widened(e: Lanes, t: Scalar, v: str) -> str:
    if t.bits == 64:
        return v
    word = "sext" if t.kind == "i" else "zext"
    return e.value(f"{word} {e.vector_type(t)} {v} to <{e.width} x i64>")


def moved(e: Lanes, place: str, by: int) -> str:
    return e.value(f"getelementptr i8, ptr {place}, i64 {by}") if by else place


# memory's own types: truths are bytes


def memory_vector(e: Lanes, t: Scalar) -> str:
    return f"<{e.width} x {e.memory_type(t)}>"


def from_memory(e: Lanes, t: Scalar, v: str) -> str:
    return e.value(f"icmp ne <{e.width} x i8> {v}, zeroinitializer") if t.kind == "b" else v


def to_memory(e: Lanes, t: Scalar, v: str) -> str:
    return e.value(f"zext <{e.width} x i1> {v} to <{e.width} x i8>") if t.kind == "b" else v


# loads


def load(e: Lanes, op: Op) -> None:
    if op in e.grouped:
        return
    ops = e.groups.get(op, [op])
    by = e.analysis.lane_bytes(op)
    if e.stride(op) == 0:
        for one in ops:
            Thread.load(e, one)
    elif by == 0:  # the terms cancel out
        for one in ops:
            place = moved(e, first_place(e, one), one.attrs["offset"])
            e.vectors[one] = from_memory(e, one.type, e.splat(e.memory_type(one.type), e.value(  # type: ignore[arg-type]
                f"load {e.memory_type(one.type)}, ptr {place}, align {one.type.size}")))  # type: ignore[attr-defined]  # fmt: skip
    elif by == op.type.size:  # type: ignore[attr-defined]
        for one in ops:
            load_contiguous(e, one)
    elif by is not None and not e.mask and is_interleaved(e, ops, by):
        load_interleaved(e, ops, by)
    else:
        load_by_lane(e, ops)


def can_mask(e: Lanes, t: Scalar) -> bool:
    """Whether the processors have masked vector accesses of this size."""
    return t.size >= 4


def load_contiguous(e: Lanes, op: Op) -> None:
    t: Scalar = op.type  # type: ignore[assignment]
    scope = e.scopes.get(op.operands[0], "")
    if e.mask and not can_mask(e, t):
        load_by_lane(e, [op])
        return
    place, vt = moved(e, first_place(e, op), op.attrs["offset"]), memory_vector(e, t)
    if not e.mask:
        v = e.value(f"load {vt}, ptr {place}, align {t.size}{scope}")
    else:
        name = f"llvm.masked.load.v{e.width}{e.suffix(t)}.p0"
        e.declarations.setdefault(name, f"declare {vt} @{name}(ptr, i32, <{e.width} x i1>, {vt})")
        v = e.value(
            f"call {vt} @{name}(ptr {place}, i32 {t.size}, <{e.width} x i1> {e.mask}, {vt} zeroinitializer){scope}"
        )
    e.vectors[op] = from_memory(e, t, v)


def is_interleaved(e: Lanes, ops: Sequence[Op], by: int) -> bool:
    """Whether full-width accesses pay: neighbouring elements of two or three equally wide leaves."""
    size = ops[0].type.size  # type: ignore[attr-defined]
    same = all(op.type.size == size and op.type.kind != "b" and op.attrs["offset"] % size == 0 for op in ops)  # type: ignore[attr-defined]
    return same and by in (2 * size, 3 * size) and e.analysis.is_whole(ops[0])


def load_interleaved(e: Lanes, ops: Sequence[Op], by: int) -> None:
    first = first_place(e, ops[0])
    w = e.width
    wholes: dict[str, str] = {}
    for op in ops:
        t: Scalar = op.type  # type: ignore[assignment]
        lt, count = LLVM_TYPES[t.name], by // t.size
        if lt not in wholes:
            wholes[lt] = e.value(f"load <{count * w} x {lt}>, ptr {first}, align {t.size}")
        vt = f"<{count * w} x {lt}>"
        picks = indices(op.attrs["offset"] // t.size + count * lane for lane in range(w))
        e.vectors[op] = e.value(f"shufflevector {vt} {wholes[lt]}, {vt} poison, <{w} x i32> {picks}")


def indices(numbers: Iterable[int]) -> str:
    return f"<{', '.join(f'i32 {n}' for n in numbers)}>"


def load_by_lane(e: Lanes, ops: Sequence[Op]) -> None:
    scope = e.scopes.get(ops[0].operands[0], "")
    if e.gathers and len(ops) == 1 and can_mask(e, ops[0].type):  # type: ignore[arg-type]
        gather(e, ops[0], scope)
        return
    places = lane_places(e, ops[0], max(op.attrs["offset"] for op in ops) + 16)
    padded = ops[0].attrs["layout"] == "rows"
    for offset, length, leaves in pieces(ops, padded):
        if length == 1:
            load_scalars(e, leaves[0], places, scope)
        else:
            load_quads(e, offset, length, leaves, places, scope)


def gather(e: Lanes, op: Op, scope: str) -> None:
    t: Scalar = op.type  # type: ignore[assignment]
    w, vt = e.width, memory_vector(e, t)
    places = place_vector(e, op)
    if op.attrs["offset"]:
        places = e.value(f"getelementptr i8, <{w} x ptr> {places}, i64 {op.attrs['offset']}")
    name = f"llvm.masked.gather.v{w}{e.suffix(t)}.v{w}p0"
    e.declarations.setdefault(name, f"declare {vt} @{name}(<{w} x ptr>, i32, <{w} x i1>, {vt})")
    mask = e.mask or "splat (i1 true)"
    e.vectors[op] = e.value(
        f"call {vt} @{name}(<{w} x ptr> {places}, i32 {t.size}, <{w} x i1> {mask}, {vt} zeroinitializer){scope}"
    )


def pieces(ops: Sequence[Op], padded: bool) -> list[tuple[int, int, list[Op]]]:
    """Cuts the accessed leaves into (offset, leaves taken, accesses). `padded`: 16 bytes may be read at a multiple."""
    result: list[tuple[int, int, list[Op]]] = []
    for op in sorted(ops, key=lambda op: op.attrs["offset"]):
        t: Scalar = op.type  # type: ignore[assignment]
        offset = op.attrs["offset"]
        if t.size != 4 or offset % 4:
            result.append((offset, 1, [op]))
            continue
        last = result[-1] if result else None
        if last and offset + 4 <= last[0] + 4 * PIECE and last[2][0].type.size == 4:  # type: ignore[attr-defined]
            result[-1] = (last[0], (offset - last[0]) // 4 + 1, [*last[2], op])
        else:
            result.append((offset // 16 * 16 if padded else offset, 1, [op]))
    if padded:
        result = [
            (offset, PIECE if len(leaves) > 1 else 1, leaves) if leaves[0].type.size == 4 else (offset, n, leaves)  # type: ignore[attr-defined]
            for offset, n, leaves in result
        ]
    return result


def load_scalars(e: Lanes, op: Op, places: Sequence[str], scope: str) -> None:
    t: Scalar = op.type  # type: ignore[assignment]
    mt, vt = e.memory_type(t), memory_vector(e, t)
    v = "poison"
    for lane, place in enumerate(places):
        one = e.value(f"load {mt}, ptr {moved(e, place, op.attrs['offset'])}, align {t.size}{scope}")
        v = e.value(f"insertelement {vt} {v}, {mt} {one}, i64 {lane}")
    e.vectors[op] = from_memory(e, t, v)


def load_quads(
    e: Lanes, offset: int, length: int, leaves: Sequence[Op], places: Sequence[str], scope: str
) -> None:
    quads = []
    for place in places:
        quad = e.value(f"load <{length} x float>, ptr {moved(e, place, offset)}, align 4{scope}")
        if length < PIECE:
            picks = indices(k if k < length else length for k in range(PIECE))
            quad = e.value(f"shufflevector <{length} x float> {quad}, <{length} x float> poison, <4 x i32> {picks}")
        quads.append(quad)
    columns = transposed_in(e, quads)
    for op in leaves:
        v, t = columns[(op.attrs["offset"] - offset) // 4], op.type
        vt = e.vector_type(t)
        e.vectors[op] = v if t.is_float else e.value(f"bitcast <{e.width} x float> {v} to {vt}")  # type: ignore[attr-defined]


# transpositions: W quads (one for each lane) and four vectors (one for each leaf), inside blocks of four lanes


def blockwise(e: Lanes, a: str, b: str, picks: Sequence[int]) -> str:
    """In each block of four, elements 0 … 3 of a's block and 4 … 7 of b's."""
    w = e.width
    numbers = indices(
        block + p if p < 4 else w + block + p - 4 for block in range(0, w, 4) for p in picks
    )
    return e.value(f"shufflevector <{w} x float> {a}, <{w} x float> {b}, <{w} x i32> {numbers}")


_LOW, _HIGH = (0, 4, 1, 5), (2, 6, 3, 7)  # interleaves halves
_FIRST, _SECOND = (0, 1, 4, 5), (2, 3, 6, 7)  # joins halves


def transposed_in(e: Lanes, quads: Sequence[str]) -> list[str]:
    rows = [joined(e, [quads[r + block] for block in range(0, e.width, 4)]) for r in range(4)]
    low01, low23 = blockwise(e, rows[0], rows[1], _LOW), blockwise(e, rows[2], rows[3], _LOW)
    high01, high23 = blockwise(e, rows[0], rows[1], _HIGH), blockwise(e, rows[2], rows[3], _HIGH)
    return [blockwise(e, low01, low23, _FIRST), blockwise(e, low01, low23, _SECOND),
            blockwise(e, high01, high23, _FIRST), blockwise(e, high01, high23, _SECOND)]  # fmt: skip


def joined(e: Lanes, quads: Sequence[str]) -> str:
    """Quads one behind the other in one vector."""
    parts, n = list(quads), 4
    while len(parts) > 1:
        numbers = indices(range(2 * n))
        parts = [
            e.value(f"shufflevector <{n} x float> {parts[k]}, <{n} x float> {parts[k + 1]}, <{2 * n} x i32> {numbers}")
            for k in range(0, len(parts), 2)
        ]
        n *= 2
    return parts[0]


def transposed_out(e: Lanes, columns: Sequence[str], length: int) -> list[str]:
    """Per lane a `<length x float>`."""
    a, b, c, d = columns
    low_ab, low_cd = blockwise(e, a, b, _LOW), blockwise(e, c, d, _LOW)
    high_ab, high_cd = blockwise(e, a, b, _HIGH), blockwise(e, c, d, _HIGH)
    rows = [blockwise(e, low_ab, low_cd, _FIRST), blockwise(e, low_ab, low_cd, _SECOND),
            blockwise(e, high_ab, high_cd, _FIRST), blockwise(e, high_ab, high_cd, _SECOND)]  # fmt: skip
    w = e.width
    quads = []
    for lane in range(w):
        picks = indices(lane // 4 * 4 + k for k in range(length))
        quads.append(
            e.value(f"shufflevector <{w} x float> {rows[lane % 4]}, <{w} x float> poison, <{length} x i32> {picks}")
        )
    return quads


# stores


def store(e: Lanes, op: Op) -> None:
    if op in e.grouped:
        return
    ops = e.groups.get(op, [op])
    by = e.analysis.lane_bytes(op)
    size = op.operands[-1].type.size  # type: ignore[attr-defined]
    if by == 0:
        for one in ops:
            store_last(e, one)
    elif by == size:
        for one in ops:
            store_contiguous(e, one)
    elif by is not None and not e.mask and is_filled(e, ops, by):
        store_interleaved(e, ops)
    else:
        store_by_lane(e, ops)


def store_last(e: Lanes, op: Op) -> None:
    """All lanes write to one address: the last that runs wins, as the last thread does."""
    v = op.operands[-1]
    t: Scalar = v.type  # type: ignore[assignment]
    if e.stride(v) == 0:
        value = e.names[v]
    else:
        vector, vt, lane = e.vector(v), e.vector_type(t), str(e.width - 1)
        if e.mask:
            bits = e.value(f"zext i{e.width} {e.mask_bits(e.mask)} to i64")
            zeros = e.intrinsic("llvm.ctlz.i64", "i64", f"i64 {bits}", "i1 false")
            lane = e.value(f"sub i64 63, {zeros}")
        value = e.lane(vt, vector, lane)
    place = moved(e, first_place(e, op), op.attrs["offset"])
    e.write(place, t, value, e.scopes.get(op.operands[0], ""))


def store_contiguous(e: Lanes, op: Op) -> None:
    t: Scalar = op.operands[-1].type  # type: ignore[assignment]
    scope = e.scopes.get(op.operands[0], "")
    vector = to_memory(e, t, e.vector(op.operands[-1]))
    place, vt = moved(e, first_place(e, op), op.attrs["offset"]), memory_vector(e, t)
    plain = f"  store {vt} {vector}, ptr {place}, align {t.size}{scope}"
    if not e.mask:
        e.lines.append(plain)
        return
    whole, some, end = e.label("whole"), e.label("some"), e.label("stored")
    e.branch(e.all(e.mask), whole, some)
    e.start(whole)
    e.lines.append(plain)
    e.jump(end)
    e.start(some)
    if can_mask(e, t):
        name = f"llvm.masked.store.v{e.width}{e.suffix(t)}.p0"
        e.declarations.setdefault(name, f"declare void @{name}({vt}, ptr, i32, <{e.width} x i1>)")
        e.lines.append(
            f"  call void @{name}({vt} {vector}, ptr {place}, i32 {t.size}, <{e.width} x i1> {e.mask}){scope}"
        )
    else:
        with e.aside():
            store_scalars(e, op, lane_places(e, op, op.attrs["offset"] + 16), vector, scope)
    e.jump(end)
    e.start(end)


def is_filled(e: Lanes, ops: Sequence[Op], by: int) -> bool:
    """Whether the stores fill elements of two or three equal leaves, each leaf once."""
    t = ops[0].operands[-1].type
    size = t.size  # type: ignore[attr-defined]
    wanted = [k * size for k in range(by // size)]
    return (
        t.kind != "b"  # type: ignore[attr-defined]
        and by in (2 * size, 3 * size)
        and e.analysis.is_whole(ops[0])
        and all(op.operands[-1].type == t for op in ops)
        and sorted(op.attrs["offset"] for op in ops) == wanted
    )


def store_interleaved(e: Lanes, ops: Sequence[Op]) -> None:
    t: Scalar = ops[0].operands[-1].type  # type: ignore[assignment]
    lt, w, n = LLVM_TYPES[t.name], e.width, len(ops)
    leaves = [e.vector(op.operands[-1]) for op in sorted(ops, key=lambda op: op.attrs["offset"])]
    place = first_place(e, ops[0])
    vt, double = f"<{w} x {lt}>", f"<{2 * w} x {lt}>"
    if n == 2:
        picks = indices(lane + w * k for lane in range(w) for k in range(2))
        whole = e.value(f"shufflevector {vt} {leaves[0]}, {vt} {leaves[1]}, <{2 * w} x i32> {picks}")
    else:
        both = e.value(f"shufflevector {vt} {leaves[0]}, {vt} {leaves[1]}, <{2 * w} x i32> {indices(range(2 * w))}")
        last = e.value(f"shufflevector {vt} {leaves[2]}, {vt} poison, <{2 * w} x i32> {indices(range(2 * w))}")
        picks = indices(lane + w * k for lane in range(w) for k in range(3))
        whole = e.value(f"shufflevector {double} {both}, {double} {last}, <{3 * w} x i32> {picks}")
    e.lines.append(f"  store <{n * w} x {lt}> {whole}, ptr {place}, align {t.size}")


def store_by_lane(e: Lanes, ops: Sequence[Op]) -> None:
    scope = e.scopes.get(ops[0].operands[0], "")
    vectors = {op: to_memory(e, op.operands[-1].type, e.vector(op.operands[-1])) for op in ops}  # type: ignore[arg-type]
    places = lane_places(e, ops[0], max(op.attrs["offset"] for op in ops) + 16)
    for run in runs(ops):
        if len(run) == 1:
            store_scalars(e, run[0], places, vectors[run[0]], scope)
            continue
        columns = []
        for op in run:
            t: Scalar = op.operands[-1].type  # type: ignore[assignment]
            v = vectors[op]
            columns.append(v if t.is_float else e.value(f"bitcast {e.vector_type(t)} {v} to <{e.width} x float>"))
        columns += ["poison"] * (PIECE - len(run))
        for place, quad in zip(places, transposed_out(e, columns, len(run)), strict=True):
            where = moved(e, place, run[0].attrs["offset"])
            e.lines.append(f"  store <{len(run)} x float> {quad}, ptr {where}, align 4{scope}")


def runs(ops: Sequence[Op]) -> list[list[Op]]:
    """Stores to leaves of four bytes that follow one another, up to four; each other store alone. In program order
    where a leaf is written twice."""
    offsets = [op.attrs["offset"] for op in ops]
    if len(set(offsets)) != len(offsets):
        return [[op] for op in ops]
    result: list[list[Op]] = []
    for op in sorted(ops, key=lambda op: op.attrs["offset"]):
        last = result[-1] if result else None
        joins = (
            last is not None
            and len(last) < PIECE
            and op.operands[-1].type.size == 4  # type: ignore[attr-defined]
            and last[-1].operands[-1].type.size == 4  # type: ignore[attr-defined]
            and op.attrs["offset"] == last[-1].attrs["offset"] + 4
        )
        if joins and last is not None:
            last.append(op)
        else:
            result.append([op])
    return result


def store_scalars(e: Lanes, op: Op, places: Sequence[str], vector: str, scope: str) -> None:
    t: Scalar = op.operands[-1].type  # type: ignore[assignment]
    mt, vt = e.memory_type(t), memory_vector(e, t)
    for lane, place in enumerate(places):
        one = e.lane(vt, vector, lane)
        e.lines.append(f"  store {mt} {one}, ptr {moved(e, place, op.attrs['offset'])}, align {t.size}{scope}")


# local arrays: element k of all lanes stands together


def local(e: Lanes, op: Op) -> None:
    if e.stride(op) is not None:
        Thread.local(e, op)
        return
    t = op.type
    assert isinstance(t, LocalArray) and isinstance(t.dtype, Scalar)
    name = e.names[op] = e.new_name()
    size = t.size * t.dtype.size * e.width
    e.entry.append(f"  {name} = alloca [{t.size} x {memory_vector(e, t.dtype)}], align 64")
    if not op.attrs.keys() & {"filled", "unset"}:
        e.declarations["memset"] = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"
        e.lines.append(f"  call void @llvm.memset.p0.i64(ptr align 64 {name}, i8 0, i64 {size}, i1 false)")


def local_vector_place(e: Lanes, op: Op) -> str:
    """Address of an element of all lanes, at a uniform index."""
    array, index = op.operands[:2]
    vt = memory_vector(e, array.type.dtype)  # type: ignore[attr-defined]
    return e.value(f"getelementptr {vt}, ptr {e.names[array]}, i64 {e.wide(index)}")


def local_lane_places(e: Lanes, op: Op) -> list[str]:
    """Address of each lane's element, at its own index; a lane that does not run gets a scratch place."""
    array, index = op.operands[:2]
    t: Scalar = array.type.dtype  # type: ignore[attr-defined]
    w, vt = e.width, f"<{e.width} x i64>"
    if e.stride(array) is not None:  # a uniform array
        offsets = wide_index(e, index)
    else:
        rows = e.value(f"mul {vt} {wide_index(e, index)}, splat (i64 {w})")
        lanes = ", ".join(f"i64 {lane}" for lane in range(w))
        offsets = e.value(f"add {vt} {rows}, <{lanes}>")
    places = e.value(f"getelementptr {e.memory_type(t)}, ptr {e.names[array]}, {vt} {offsets}")
    if e.mask:
        e.scratch_bytes = max(e.scratch_bytes, 64)
        places = e.chosen(e.mask, f"<{w} x ptr>", places, e.splat("ptr", "%scratch"))
    return [e.lane(f"<{w} x ptr>", places, lane) for lane in range(w)]


def local_load(e: Lanes, op: Op) -> None:
    array, index = op.operands
    t: Scalar = op.type  # type: ignore[assignment]
    if e.stride(op) == 0:
        Thread.local_load(e, op)
        return
    if e.stride(index) == 0:
        v = e.value(f"load {memory_vector(e, t)}, ptr {local_vector_place(e, op)}, align {t.size * e.width}")
    else:
        v = "poison"
        mt = e.memory_type(t)
        for lane, place in enumerate(local_lane_places(e, op)):
            one = e.value(f"load {mt}, ptr {place}, align {t.size}")
            v = e.value(f"insertelement {memory_vector(e, t)} {v}, {mt} {one}, i64 {lane}")
    e.vectors[op] = from_memory(e, t, v)


def local_store(e: Lanes, op: Op) -> None:
    array, index, value = op.operands
    t: Scalar = value.type  # type: ignore[assignment]
    if e.stride(array) is not None:
        Thread.local_store(e, op)
        return
    vt, v = memory_vector(e, t), to_memory(e, t, e.vector(value))
    if e.stride(index) == 0:
        place = local_vector_place(e, op)
        if e.mask and e.analysis.misses(op):
            v = e.chosen(e.mask, vt, v, e.value(f"load {vt}, ptr {place}, align {t.size * e.width}"))
        e.lines.append(f"  store {vt} {v}, ptr {place}, align {t.size * e.width}")
        return
    for lane, place in enumerate(local_lane_places(e, op)):
        e.lines.append(f"  store {e.memory_type(t)} {e.lane(vt, v, lane)}, ptr {place}, align {t.size}")


# atomics


_WHOLE = frozenset({"add", "sub", "and", "or", "xor", "min", "max"})


def atomic(e: Lanes, op: Op) -> None:
    """Lane after lane, as threads come. Integers at one address, whose old value nobody reads, are summed up first."""
    t: Scalar = op.type  # type: ignore[assignment]
    name = op.attrs["op"]
    if t.is_int and name in _WHOLE and op not in e.analysis.used and e.analysis.lane_bytes(op) == 0:
        value = summed(e, op, t, name)
        place = moved(e, first_place(e, op), op.attrs["offset"])
        e.atomic_at(op, place, [value])
        return
    w = e.width
    count = 2 if name == "cas" else 1
    lt, vt = LLVM_TYPES[t.name], e.vector_type(t)
    places = place_vector(e, op)
    where = e.alloca(f"[{w} x ptr]")
    e.lines.append(f"  store <{w} x ptr> {places}, ptr {where}, align 8")
    given = []
    for v in op.operands[-count:]:
        given.append(e.alloca(f"[{w} x {lt}]"))
        e.lines.append(f"  store {vt} {e.vector(v)}, ptr {given[-1]}, align {t.size}")
    old = e.alloca(f"[{w} x {lt}]")
    lane, finish = each_lane(e)
    place = e.value(f"load ptr, ptr {e.value(f'getelementptr ptr, ptr {where}, i64 {lane}')}")
    values = [
        e.value(f"load {lt}, ptr {e.value(f'getelementptr {lt}, ptr {one}, i64 {lane}')}, align {t.size}")
        for one in given
    ]
    result = e.atomic_at(op, moved(e, place, op.attrs["offset"]), values)
    place = e.value(f"getelementptr {lt}, ptr {old}, i64 {lane}")
    e.lines.append(f"  store {lt} {result}, ptr {place}, align {t.size}")
    finish()
    e.vectors[op] = e.value(f"load {vt}, ptr {old}, align {t.size}")


def each_lane(e: Lanes) -> tuple[str, Callable[[], None]]:
    """Opens a loop over the lanes that run, in ascending order: (lane as i64, function that closes the loop)."""
    w = e.width
    first = e.value(f"zext i{w} {e.mask_bits(e.mask)} to i64") if e.mask else str((1 << w) - 1)
    left = e.alloca("i64")
    e.lines.append(f"  store i64 {first}, ptr {left}")
    head, body, end = e.label("lanes"), e.label("lane"), e.label("lanes.end")
    e.jump(head)
    e.start(head)
    bits = e.value(f"load i64, ptr {left}")
    e.branch(e.value(f"icmp ne i64 {bits}, 0"), body, end)
    e.start(body)
    lane = e.intrinsic("llvm.cttz.i64", "i64", f"i64 {bits}", "i1 false")

    def finish() -> None:
        lower = e.value(f"sub i64 {bits}, 1")
        e.lines.append(f"  store i64 {e.value(f'and i64 {bits}, {lower}')}, ptr {left}")
        e.jump(head)
        e.lines[-1] += f", !llvm.loop {e.loop_node(e.once)}"
        e.start(end)

    return lane, finish


def summed(e: Lanes, op: Op, t: Scalar, name: str) -> str:
    """The operands of all lanes that run as one operand."""
    lt, vt = LLVM_TYPES[t.name], e.vector_type(t)
    v = e.vector(op.operands[-1])
    low, high = t.range
    neutral = {"and": -1 if t.kind == "i" else high, "min": high, "max": low}.get(name, 0)
    if e.mask:
        v = e.chosen(e.mask, vt, v, f"splat ({lt} {literal(t, neutral)})")
    word = {"sub": "add", "min": "smin" if t.kind == "i" else "umin", "max": "smax" if t.kind == "i" else "umax"}.get(
        name, name
    )
    return e.intrinsic(f"llvm.vector.reduce.{word}.v{e.width}{e.suffix(t)}", lt, f"{vt} {v}")
