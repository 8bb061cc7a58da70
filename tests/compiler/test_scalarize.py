"""Values of every kind and arrays of every layout reach the right bytes."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from engine.compiler import types as T
from engine.compiler.inline import inline
from engine.compiler.normalize import normalize
from engine.compiler.printer import print_function
from engine.compiler.scalarize import scalarize
from engine.compiler.verify import verify
from tests.compiler.hir_builder import Builder, run

F, V3 = T.float32, T.Vector(T.float32, 3)
HIT = T.Struct("Hit", (("flag", T.bool_), ("t", T.float64), ("n", V3)))
HIT_DTYPE = np.dtype([("flag", bool), ("t", np.float64), ("n", np.float32, 3)], align=True)


def mir_text(b: Builder) -> str:
    return print_function(verify(scalarize(inline(normalize(verify(b.fn)))), "mir"))


def test_vector_elements_of_a_strided_array() -> None:
    b = Builder("scale", ("x", T.Array(V3)), ("y", T.Array(V3)))
    i = b.tid()
    v = b.load(b.params[0], i)
    b.store(b.params[1], i, b.ew("add", v, v))
    x = np.arange(60, dtype=np.float32).reshape(20, 3)[::2]
    y = np.full((10, 3), np.nan, np.float32)[::-1]
    run(b.fn, 10, x, y)
    assert np.array_equal(y, x * 2)


def test_only_used_leaves_are_parameters() -> None:
    b = Builder("first", ("x", T.Array(V3)), ("unused", T.Array(F)), ("y", T.Array(F)))
    i = b.tid()
    b.store(b.params[2], i, b.op("extract", F, b.load(b.params[0], i), index=1))
    y = np.zeros(4, np.float32)
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    compiled = run(b.fn, 4, x, np.zeros(1, np.float32), y)
    assert y.tolist() == [1, 4, 7, 10]
    assert [(s.param, s.path) for s in compiled.abi.slots] == [
        (0, ("data",)), (0, ("stride", 0)), (2, ("data",)), (2, ("stride", 0)),
    ]  # fmt: skip
    assert [s.offset for s in compiled.abi.slots] == [32, 40, 48, 56]


@pytest.mark.parametrize("layout", ["aos", "rows"])
def test_structs_in_memory(layout: str) -> None:
    array = T.Array(HIT, 1, layout)
    b = Builder("hits", ("hits", array))
    i = b.tid()
    h = b.load(b.params[0], i)
    t = b.op("extract", T.float64, h, index=1)
    h = b.op("insert", HIT, h, b.ew("not", b.op("extract", T.bool_, h, index=0)), index=0)
    h = b.op("insert", HIT, h, b.ew("mul", t, t), index=1)
    b.store(b.params[0], i, h)
    n = b.op("extract", V3, h, index=2)
    b.store(b.params[0], i, b.op("extract", F, n, index=0), offset=4)  # n[2] = n[0]
    offsets, size, _ = T.memory_layout(HIT, layout)
    assert HIT_DTYPE.itemsize == T.memory_layout(HIT)[1] == 32 and offsets == (0, 8, 16, 20, 24)
    data = np.zeros(5, HIT_DTYPE)
    data["t"], data["n"] = np.arange(5), [1, 2, 3]
    run(b.fn, 5, data)
    assert data["flag"].all() and data["t"].tolist() == [0, 1, 4, 9, 16]
    assert (data["n"] == [1, 2, 1]).all()
    assert size == 32


def test_sub_arrays_of_planes_with_mixed_widths() -> None:
    """Planes of float64 next to planes of float32: one stride, in bytes of plane 0, serves both."""
    pair = T.Struct("Pair", (("a", T.float64), ("b", T.float32)))
    two, one = T.Array(pair, 2, "planes"), T.Array(pair, 1, "planes")
    b = Builder("rows_of_planes", ("x", two), ("out", T.Array(T.float64, 2)))
    i = b.tid()
    row = b.op("subarray", one, b.params[0], i)
    for k in range(3):
        v = b.load(row, b.i32(k))
        total = b.ew("add", b.op("extract", T.float64, v, index=0), b.cast(T.float64, b.op("extract", F, v, index=1)))
        b.store(b.params[1], i, b.i32(k), total)

    class Planes:
        planes = (np.arange(6.0).reshape(2, 3), np.arange(6, dtype=np.float32).reshape(2, 3) * 10)
        shape, strides = planes[0].shape, planes[0].strides

        def __getitem__(self, key: tuple) -> np.ndarray:
            return self.planes[key[1]]

    out = np.zeros((2, 3))
    run(b.fn, 2, Planes(), out)
    assert out.tolist() == (np.arange(6.0).reshape(2, 3) * 11).tolist()


def test_shape_and_slots_of_arrays() -> None:
    """A local variable may hold a view; its shape travels with it."""
    matrix, row = T.Array(F, 2), T.Array(F, 1)
    b = Builder("last_row", ("m", matrix), ("out", row))
    view = b.var("view", b.op("subarray", row, b.params[0], b.i32(0)))
    rows = b.op("shape", T.int32, b.params[0], dim=0)
    b.set(view, b.op("subarray", row, b.params[0], b.ew("sub", rows, b.i32(1))))
    width = b.op("shape", T.int32, b.get(view), dim=0)
    with b.for_(b.i32(0), width, b.i32(1)) as k:
        b.store(b.params[1], k, b.load(b.get(view), k))
    m, out = np.arange(12, dtype=np.float32).reshape(3, 4), np.zeros(4, np.float32)
    run(b.fn, 1, m, out)
    assert out.tolist() == [8, 9, 10, 11]


@pytest.mark.parametrize("n", [3, 9])
def test_run_time_component_index(n: int) -> None:
    """In range: that component. Out of range: component 0 is read, none is written; memory is never touched."""
    t = T.Vector(F, n)
    b = Builder(
        "components", ("x", T.Array(t)), ("read", T.Array(F)), ("written", T.Array(t)), ("index", T.Array(T.int32))
    )
    i = b.tid()
    v, k = b.load(b.params[0], i), b.load(b.params[3], i)
    b.store(b.params[1], i, b.op("extract_at", F, v, k))
    b.store(b.params[2], i, b.op("insert_at", t, v, k, b.f32(-1.0)))
    index = np.array([*range(n), -1, n, 2**31 - 1, -(2**31)], np.int32)
    x = np.arange(len(index) * n, dtype=np.float32).reshape(-1, n)
    read, written = np.zeros(len(index), np.float32), np.zeros_like(x)
    run(b.fn, len(index), x, read, written, index)
    for row, k in enumerate(index):
        inside = 0 <= k < n
        assert read[row] == x[row, k if inside else 0]
        want = x[row].copy()
        if inside:
            want[k] = -1
        assert written[row].tolist() == want.tolist()


def test_constant_component_index_is_free() -> None:
    b = Builder("constant", ("x", T.Array(V3)), ("y", T.Array(F)))
    i = b.tid()
    b.store(b.params[1], i, b.op("extract_at", F, b.load(b.params[0], i), b.i32(2)))
    text = mir_text(b)
    assert "select" not in text and "local" not in text


def test_local_arrays_are_zero_each_time() -> None:
    """The op stands in a loop: every iteration, and every thread, sees zeros."""
    local = T.LocalArray(V3, (4,))
    b = Builder("locals", ("out", T.Array(F)))
    i = b.tid()
    total = b.var("total", b.f32(0.0))
    with b.for_(b.i32(0), b.i32(3), b.i32(1)) as k:
        buffer = b.op("local", local)
        before = b.op("extract", F, b.op("local_load", V3, buffer, k), index=1)
        b.set(total, b.ew("add", b.get(total), before))
        one = b.f32(1.0)
        with b.for_(b.i32(0), b.i32(4), b.i32(1)) as j:
            b.op("local_store", T.void, buffer, j, b.op("make", V3, one, one, one))
        after = b.op("extract", F, b.op("local_load", V3, buffer, k), index=2)
        b.set(total, b.ew("add", b.get(total), after))
    b.store(b.params[0], i, b.get(total))
    out = np.zeros(50, np.float32)
    run(b.fn, 50, out)
    assert (out == 3).all()


BODIES = T.Table("Bodies", (("position", V3, "nbody"), ("awake", T.bool_, "nbody"), ("mass", T.float64, "nbody")))


def field(b: Builder, name: str) -> T.Type:
    return b.op("field", T.Array(BODIES.field(name)[0], 1, "planes"), b.params[0], name=name)


def test_table_fields_are_planes_with_known_strides() -> None:
    b = Builder("move", ("bodies", BODIES))
    i = b.tid()
    position, awake = field(b, "position"), field(b, "awake")
    with b.if_(b.load(awake, i)):
        v = b.load(position, i)
        b.store(position, i, b.ew("add", v, v))
        b.store(position, i, b.cast(F, b.load(field(b, "mass"), i)), offset=1)
    count = b.op("count", T.int32, b.params[0], symbol="nbody")
    with b.if_(b.ew("ge", b.ew("add", i, b.i32(1)), count)):
        b.store(awake, i, b.const(T.bool_, False))
    table = {"position": [np.arange(4, dtype=np.float32) + 10 * k for k in range(3)],
             "awake": [np.array([True, False, True, True])], "mass": [np.arange(4.0) + 100], "nbody": 4}  # fmt: skip
    compiled = run(b.fn, 4, table)
    assert table["position"][0].tolist() == [0, 1, 4, 6]
    assert table["position"][1].tolist() == [100, 11, 102, 103]
    assert table["position"][2].tolist() == [40, 21, 44, 46]
    assert table["awake"][0].tolist() == [True, False, True, False]
    assert ("stride", 0) not in [s.path for s in compiled.abi.slots]
    assert "!noalias" in compiled.stages["llvm"]


@pytest.mark.parametrize("t", [T.int32, T.uint32, T.int64, F, T.float64], ids=repr)
def test_atomics(t: T.Scalar) -> None:
    names = ["add", "sub", "min", "max", "exch", *(["and", "or", "xor"] if t.is_int else [])]
    b = Builder("atomics", *[(n, T.Array(t)) for n in names], ("old", T.Array(t)), ("swap", T.Array(t)))
    i = b.tid()
    value = b.cast(t, i)
    for p in b.params[: len(names)]:
        b.op("atomic", t, p, b.i32(0), value, op=p.attrs["name"])
    swap, old = b.params[-1], b.params[-2]
    given = b.op("atomic", t, swap, b.i32(0), value, b.ew("add", value, b.const(t, 1 if t.is_int else 1.0)), op="cas")
    b.store(old, i, given)
    cells = {n: np.array([5], t.numpy) for n in names}
    olds, swapped = np.zeros(8, t.numpy), np.zeros(1, t.numpy)
    run(b.fn, 8, *cells.values(), olds, swapped)
    want = {
        "add": 33,
        "sub": 2**32 - 23 if t is T.uint32 else -23,
        "min": 0,
        "max": 7,
        "exch": 7,
        "and": 0,
        "or": 7,
        "xor": 5,
    }
    assert {n: c[0] for n, c in cells.items()} == {n: want[n] for n in names}
    assert olds.tolist() == list(range(8)) and swapped[0] == 8  # each thread found its own number and put the next


def test_float_extremes_ignore_nan_under_contention() -> None:
    b = Builder("extremes", ("x", T.Array(F)), ("low", T.Array(F)), ("high", T.Array(F)))
    v = b.load(b.params[0], b.tid())
    b.op("atomic", F, b.params[1], b.i32(0), v, op="min")
    b.op("atomic", F, b.params[2], b.i32(0), v, op="max")
    x = np.random.default_rng(1).standard_normal(40_000).astype(np.float32)
    x[::7] = np.nan
    low, high = np.full(1, np.nan, np.float32), np.full(1, np.nan, np.float32)
    workers = [threading.Thread(target=run, args=(b.fn, 10_000, part, low, high)) for part in x.reshape(4, -1)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert (low[0], high[0]) == (np.nanmin(x), np.nanmax(x))


def test_multi_dimensional_grid() -> None:
    b = Builder("grid", ("out", T.Array(T.int32, 3)))
    i, j, k = (b.tid(axis, 3) for axis in range(3))
    value = b.ew("add", b.ew("mul", i, b.i32(100)), b.ew("add", b.ew("mul", j, b.i32(10)), k))
    b.store(b.params[0], i, j, k, value)
    out = np.full((2, 3, 4), -1, np.int32)
    run(b.fn, (2, 3, 4), out)
    assert out.tolist() == [[[100 * i + 10 * j + k for k in range(4)] for j in range(3)] for i in range(2)]


@pytest.mark.parametrize("t", T.SCALARS, ids=repr)
def test_every_scalar_moves_through_all_places(t: T.Scalar) -> None:
    """Parameter, memory, slot, select, local array: LLVM must be able to move each type (it would end the process)."""
    b = Builder("move", ("x", T.Array(t)), ("y", T.Array(t)), ("p", t), ("choose", T.Array(T.bool_)))
    i = b.tid()
    x, y, p, choose = b.params
    slot = b.var("s", p)
    local = b.op("local", T.LocalArray(t, (2,)))
    b.op("local_store", T.void, local, b.i32(1), b.load(x, i))
    with b.if_(b.load(choose, i)):
        b.set(slot, b.op("local_load", t, local, b.i32(1)))
    b.store(y, i, b.op("select", t, b.load(choose, i), b.get(slot), p))
    data, out = np.array([0, 1, 1, 0]).astype(t.numpy), np.zeros(4, t.numpy)
    run(b.fn, 4, data, out, t.numpy.type(1), np.array([True, True, False, True]))
    assert out.tolist() == np.array([0, 1, 1, 0]).astype(t.numpy).tolist()


@pytest.mark.parametrize("t", [T.int8, T.uint16, T.uint64], ids=repr)
def test_atomics_of_other_widths(t: T.Scalar) -> None:
    b = Builder("narrow", ("x", T.Array(t)), ("y", T.Array(t)))
    value = b.cast(t, b.tid())
    b.op("atomic", t, b.params[0], b.i32(1), value, op="add")
    b.op("atomic", t, b.params[1], b.i32(1), value, op="max")
    x, y = np.zeros(3, t.numpy), np.zeros(3, t.numpy)
    run(b.fn, 10, x, y)
    assert x.tolist() == [0, 45, 0] and y.tolist() == [0, 9, 0]
