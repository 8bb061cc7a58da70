"""Tiles: what their functions give, compared with NumPy; views share memory, names mean what the page on tiles says."""

from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine.compiler import lang as k
from engine.compiler import types
from engine.context import array, full, launch, launch_tiled, zeros
from engine.errors import BoundsError

RNG = np.random.default_rng(7)


def run(kernel, *args, dim=1):
    """Launches one block (or `dim`); NumPy arrays go in and come back."""
    given = [array(a) if isinstance(a, np.ndarray) else a for a in args]
    launch_tiled(kernel, dim=dim, inputs=given, block_dim=32)
    return [a.numpy() for a in given if isinstance(a, array)]


def poisoned(*shape, dtype=np.float32):
    return np.full(shape, -77, dtype)


# --- memory ---------------------------------------------------------------------------------------------------------


def copy_kernel(ndim, shape, steps, checked=True):
    """Copies an array through tiles of this shape at multiples of `steps`."""
    if ndim == 1:

        @k.kernel
        def copy(a: k.array(dtype=float), b: k.array(dtype=float)):
            i = k.tid()
            t = k.tile_load(a, shape=shape, offset=i * steps[0])
            k.tile_store(b, t, offset=i * steps[0])
    elif ndim == 2:

        @k.kernel
        def copy(a: k.array(dtype=float, ndim=2), b: k.array(dtype=float, ndim=2)):
            i, j = k.tid()
            t = k.tile_load(a, shape=shape, offset=(i * steps[0], j * steps[1]))
            k.tile_store(b, t, offset=(i * steps[0], j * steps[1]))
    else:

        @k.kernel
        def copy(a: k.array(dtype=float, ndim=3), b: k.array(dtype=float, ndim=3)):
            i, j, m = k.tid()
            t = k.tile_load(a, shape=shape, offset=(i * steps[0], j * steps[1], m * steps[2]))
            k.tile_store(b, t, offset=(i * steps[0], j * steps[1], m * steps[2]))

    return copy


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_tiles_that_stand_out_are_cut_at_the_edges(ndim):
    extents, shape = (7, 5, 6)[:ndim], (4, 3, 4)[:ndim]
    a = RNG.random(extents, dtype=np.float32)
    blocks = tuple(-(-n // s) for n, s in zip(extents, shape, strict=True))
    _, b = run(copy_kernel(ndim, shape, shape), a, poisoned(*extents), dim=blocks)
    assert (a == b).all()


@k.kernel
def load_far(a: k.array(dtype=float), offset: int, out: k.array(dtype=float)):
    t = k.tile_load(a, shape=6, offset=offset)
    k.tile_store(out, t)


@pytest.mark.parametrize("offset", [-100, -4, -1, 0, 3, 4, 9, 10, 1000])
def test_what_lies_outside_of_the_array_is_zero(offset):
    a = np.arange(1, 11, dtype=np.float32)
    out = run(load_far, a, offset, poisoned(6))[1]
    wanted = [a[i] if 0 <= i < 10 else 0.0 for i in range(offset, offset + 6)]
    assert out.tolist() == wanted


@k.kernel
def add_windows(out: k.array(dtype=float, ndim=2), old: k.array(dtype=float, ndim=2), i: int, j: int):
    t = k.tile_full(shape=(2, 3), value=2.0)
    k.tile_store(old, k.tile_atomic_add(out, t, offset=(i, j)))


def test_atomic_addition_gives_the_old_elements():
    start = RNG.random((3, 4), dtype=np.float32)
    out, old = run(add_windows, start.copy(), poisoned(2, 3), 2, -1)
    wanted = start.copy()
    wanted[2:4, 0:2] += 2.0
    assert (out == wanted).all()
    assert old.tolist() == [[0.0, start[2, 0], start[2, 1]], [0.0, 0.0, 0.0]]


@k.struct
class Grain:
    mass: float
    position: k.vec3


@k.func
def heavier(g: Grain, factor: float):
    g.mass = g.mass * factor
    return g


@k.kernel
def map_structs(a: k.array(dtype=Grain), b: k.array(dtype=Grain), sums: k.array(dtype=Grain)):
    t = k.tile_load(a, shape=5)
    t[1].position[2] = 9.0
    heavy = k.tile_map(heavier, t, 3.0)
    k.tile_store(b, heavy + t)
    k.tile_store(sums, k.tile_sum(t))


def test_elements_may_be_structs():
    a = array([Grain(float(i), k.vec3(1.0, 2.0, float(i))) for i in range(5)], dtype=Grain)
    b, sums = zeros(5, dtype=Grain), zeros(1, dtype=Grain)
    launch_tiled(map_structs, dim=1, inputs=[a, b, sums], block_dim=8)
    assert [g["mass"] for g in b.numpy()] == [4.0 * i for i in range(5)]
    assert b.numpy()["position"][:, 2].tolist() == [0.0, 18.0, 4.0, 6.0, 8.0]
    assert sums.numpy()["mass"].tolist() == [10.0] and sums.numpy()["position"][0].tolist() == [5.0, 10.0, 18.0]


# --- elementwise ----------------------------------------------------------------------------------------------------


@k.kernel
def arithmetic(a: k.array(dtype=float, ndim=2), b: k.array(dtype=float, ndim=2), out: k.array(dtype=float, ndim=3)):
    x = k.tile_load(a, shape=(4, 8))
    y = k.tile_load(b, shape=(4, 8))
    k.tile_store(out[0], 2.0 * x + y / 3.0 - (-x) * y)
    k.tile_store(out[1], k.tile_map(k.atan2, x, y))
    k.tile_store(out[2], k.tile_map(k.where, x < y, x, y))
    x += y
    x *= 0.5
    k.tile_store(out[3], x)
    k.tile_store(out[4], k.tile_astype(k.tile_astype(y * 10.0, dtype=k.int32) // 3, dtype=float))


def test_operators_and_maps_work_on_every_element():
    a, b = RNG.random((2, 4, 8), dtype=np.float32)
    out = run(arithmetic, a, b, poisoned(5, 4, 8))[2]
    assert np.allclose(out[0], 2 * a + b / 3 + a * b, rtol=1e-6)
    assert np.allclose(out[1], np.arctan2(a, b), rtol=1e-6)
    assert (out[2] == np.minimum(a, b)).all()
    assert (out[3] == (a + b) * np.float32(0.5)).all()
    assert (out[4] == (b * np.float32(10)).astype(np.int32) // 3).all()


@k.kernel
def constructors(out: k.array(dtype=float, ndim=2), whole: k.array(dtype=int), vectors: k.array(dtype=k.vec3)):
    k.tile_store(out[0], k.tile_zeros(4) + k.tile_ones(4) + k.tile_full(4, 2.5) + k.tile_empty(4))
    k.tile_store(out[1], k.tile_arange(1.0, 3.0, 0.5))
    k.tile_store(out[2], k.tile_astype(k.tile_arange(4), dtype=float))
    k.tile_store(whole, k.tile_arange(9, 0, -3) * k.block_dim())
    k.tile_store(vectors, k.tile_full(shape=2, value=1.0, dtype=k.vec3) * 2.0)


def test_constructors():
    vectors = zeros(2, dtype=k.vec3)
    out, whole = run(constructors, poisoned(3, 4), poisoned(3, dtype=np.int32), vectors)[:2]
    assert out.tolist() == [[3.5] * 4, [1.0, 1.5, 2.0, 2.5], [0.0, 1.0, 2.0, 3.0]]
    assert whole.tolist() == [9, 6, 3] and (vectors.numpy() == 2.0).all()


# --- names and memory -----------------------------------------------------------------------------------------------


@k.kernel
def copies_and_aliases(out: k.array(dtype=float, ndim=2)):
    a = k.tile_zeros(2)
    b = a
    b += 1.0
    shared = k.tile_zeros(2, storage="shared")
    alias = shared
    alias += 1.0
    view = k.tile_view(a, offset=1, shape=1)
    view += 5.0
    k.tile_store(out[0], a)
    k.tile_store(out[1], b)
    k.tile_store(out[2], shared)


def test_a_second_name_copies_register_tiles_and_means_the_same_shared_tile():
    (out,) = run(copies_and_aliases, poisoned(3, 2))
    assert out.tolist() == [[0.0, 5.0], [1.0, 1.0], [1.0, 1.0]]


@k.kernel
def rebound(a: k.array(dtype=float), n: int, out: k.array(dtype=float, ndim=2)):
    x = k.tile_load(a, shape=4)
    start = x
    for i in range(n):
        if i % 2 == 0:
            x = x + 1.0
        else:
            x = k.tile_map(k.mul, x, 2.0)
    k.tile_store(out[0], x)
    x = x[::-1]
    k.tile_store(out[1], x)
    k.tile_store(out[2], start)


@pytest.mark.parametrize("n", [0, 1, 4])
def test_names_may_be_assigned_in_branches_and_loops(n):
    a = np.arange(4, dtype=np.float32)
    out = run(rebound, a, n, poisoned(3, 4))[1]
    x = a.copy()
    for i in range(n):
        x = x + 1 if i % 2 == 0 else x * 2
    assert out.tolist() == [x.tolist(), x[::-1].tolist(), a.tolist()]


@k.func
def add_in_place(t: k.tile[float, 3], by: float):
    t += by


@k.func
def shift(a: Any, b: Any):
    a[1:] = b[:2]
    a[1:] += b[:2]


@k.func
def keep_and_change(t: Any):
    before = t
    t[0] = 50.0
    return before + t


@k.func
def doubled(t: Any):
    return t * 2.0


@k.func
def same(t: Any):
    return t


@k.kernel
def through_functions(out: k.array(dtype=float, ndim=2)):
    t = k.tile_ones(3)
    add_in_place(t, 2.0)
    k.tile_store(out[0], doubled(t))
    copy = same(t)
    copy += 1.0
    k.tile_store(out[1], t)
    k.tile_store(out[2], copy)
    k.tile_store(out[3], keep_and_change(t))
    u = k.tile_arange(1.0, 4.0)
    shift(u, u)
    k.tile_store(out[4], u)


def test_functions_take_tiles_by_reference_and_return_them():
    (out,) = run(through_functions, poisoned(5, 3))
    assert out.tolist() == [[6.0] * 3, [3.0] * 3, [4.0] * 3, [53.0, 6.0, 6.0], [1.0, 2.0, 3.0]]


@k.kernel
def swapped(n: int, out: k.array(dtype=float, ndim=2)):
    a, b = k.tile_full(2, 1.0), k.tile_full(2, 2.0)
    for _ in range(n):
        a, b = b, a + b
    t: k.tile[float, 2] = a
    k.tile_store(out[0], t)
    k.tile_store(out[1], b)


def test_tuples_of_tiles_are_assigned_at_once():
    assert run(swapped, 3, poisoned(2, 2))[0].tolist() == [[5.0, 5.0], [8.0, 8.0]]


# --- views ----------------------------------------------------------------------------------------------------------


@k.kernel
def views(a: k.array(dtype=float, ndim=2), i: int, out: k.array(dtype=float, ndim=2)):
    t = k.tile_load(a, shape=(4, 6))
    k.tile_store(out[0], k.tile_reshape(k.tile_transpose(t), shape=-1))
    k.tile_store(out[1], k.tile_reshape(t[::-2, 1:5:3], shape=4))
    k.tile_store(out[2], t[i])
    k.tile_store(out[3], k.tile_transpose(t)[i, 1:])
    k.tile_store(out[4], t[i][k.tile_arange(5, -1, -2)])
    k.tile_store(out[5], k.tile_reshape(k.tile_broadcast(t[0:1, 0:3], shape=(4, 3)) + t[:, 3:], shape=12))
    k.tile_store(out[6], k.tile_squeeze(k.tile_view(t, offset=(1, i), shape=(2, 1))))
    out[7, 0] = t[-1, -2]
    out[7, 1] = k.tile_extract(t, 1, 2)
    t[1:3, 0] = t[0:2, 0]
    t[i] = t[0]
    k.tile_assign(t, k.tile_full(shape=(2, 2), value=-5.0), offset=(0, 4))
    k.tile_store(out[8], k.tile_reshape(t, shape=24))


@pytest.mark.parametrize("i", [0, 2])
def test_views_name_the_elements_that_numpy_names(i):
    a = RNG.random((4, 6), dtype=np.float32)
    out = run(views, a, i, poisoned(9, 24))[1]
    changed = a.copy()
    changed[1:3, 0] = a[0:2, 0]
    changed[i] = changed[0]
    changed[0:2, 4:6] = -5.0
    wanted = [a.T.ravel(), a[::-2, 1:5:3].ravel(), a[i], a.T[i, 1:], a[i][[5, 3, 1]], (a[0:1, 0:3] + a[:, 3:]).ravel(),
              a[1:3, i], [a[-1, -2], a[1, 2]], changed.ravel()]  # fmt: skip
    for row, values in zip(out, wanted, strict=True):
        assert row[: len(values)].tolist() == np.asarray(values).tolist()
        assert (row[len(values) :] == -77).all()


@k.kernel
def from_the_end(a: k.array(dtype=float, ndim=2), i: int, out: k.array(dtype=float)):
    t = k.tile_load(a, shape=(4, 6))
    k.tile_store(out, t[i])


def test_a_negative_row_counts_from_the_end():
    a = RNG.random((4, 6), dtype=np.float32)
    assert (run(from_the_end, a, -2, poisoned(6))[1] == a[-2]).all()


# --- reductions -----------------------------------------------------------------------------------------------------


def reductions(shape, axis):
    @k.kernel
    def reduce(a: k.array(dtype=k.float64, ndim=3), out: k.array(dtype=k.float64), places: k.array(dtype=int),
               along: k.array(dtype=k.float64, ndim=2)):  # fmt: skip
        t = k.tile_load(a, shape=shape)
        k.tile_store(out, k.tile_sum(t), offset=0)
        k.tile_store(out, k.tile_min(t), offset=1)
        k.tile_store(out, k.tile_max(t), offset=2)
        k.tile_store(out, k.tile_reduce(k.mul, t), offset=3)
        k.tile_store(places, k.tile_argmin(t), offset=0)
        k.tile_store(places, k.tile_argmax(t), offset=1)
        k.tile_store(along, k.tile_sum(t, axis=axis))

    return reduce


@settings(max_examples=8, deadline=None)
@given(shape=st.tuples(*[st.integers(1, 7)] * 3), axis=st.integers(-3, 2), seed=st.integers(0, 2**31))
def test_reductions(shape, axis, seed):
    a = np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float64)
    left = np.delete(shape, axis)
    _, out, places, along = run(reductions(shape, axis), a, poisoned(4, dtype=np.float64), poisoned(2, dtype=np.int32),
                                poisoned(*left, dtype=np.float64))  # fmt: skip
    assert out.tolist() == [a.sum(), a.min(), a.max(), a.prod()]
    assert places.tolist() == [a.argmin(), a.argmax()]
    assert (along == a.sum(axis=axis)).all()


def tree_sum(values):
    """The order of additions that is promised: the upper half onto the lower half."""
    values = values.copy()
    while len(values) > 1:
        half = (len(values) + 1) // 2
        values[: len(values) - half] += values[half:]
        values = values[:half]
    return values[0]


@pytest.mark.parametrize("n", [1, 2, 37, 1000])
def test_sums_are_added_in_one_fixed_tree(n):
    @k.kernel
    def total(a: k.array(dtype=float), out: k.array(dtype=float)):
        k.tile_store(out, k.tile_sum(k.tile_load(a, shape=n)))

    a = RNG.standard_normal(n).astype(np.float32)
    assert run(total, a, poisoned(1))[1][0] == tree_sum(a)


@pytest.mark.parametrize("n", [1, 5, 64])
def test_scans(n):
    @k.kernel
    def scans(a: k.array(dtype=int), out: k.array(dtype=int, ndim=2)):
        t = k.tile_load(a, shape=n)
        k.tile_store(out[0], k.tile_scan_inclusive(t))
        k.tile_store(out[1], k.tile_scan_exclusive(t))
        k.tile_store(out[2], k.tile_scan_max_inclusive(t))
        k.tile_store(out[3], k.tile_scan_min_inclusive(t))

    a = RNG.integers(-50, 50, n, dtype=np.int32)
    out = run(scans, a, poisoned(4, n, dtype=np.int32))[1]
    wanted = [np.cumsum(a), np.cumsum(a) - a, np.maximum.accumulate(a), np.minimum.accumulate(a)]
    assert (out == np.stack(wanted)).all()


# --- blocks ---------------------------------------------------------------------------------------------------------


@k.kernel
def values_of_threads(out: k.array(dtype=float), parts: k.array(dtype=float, ndim=2)):
    i = k.tid()
    t = k.tile(k.vec3(1.0, 2.0, float(i)))
    v = k.untile(t * 2.0)
    out[i] = v[0] + v[1] + v[2] + k.untile(k.tile(0.5))
    k.tile_store(parts, t)


def test_values_of_threads_become_tiles_and_back():
    out, parts = zeros(4), zeros((3, 1))
    launch(values_of_threads, 4, inputs=[out, parts], block_dim=64)
    assert out.numpy().tolist() == [6.5, 8.5, 10.5, 12.5]
    assert parts.numpy()[:2, 0].tolist() == [1.0, 2.0]


def test_two_views_that_differ_in_strides_alone_are_two_types():
    """The text of the code is the key of the cache."""
    row_by_row, turned = types.tile_of(types.float32, (4, 4)), types.Tile(types.float32, (4, 4), strides=(1, 4))
    assert repr(row_by_row) != repr(turned)


def test_tiles_run_as_threads_and_their_loops_become_vector_code():
    kernel = copy_kernel(1, (256,), (256,))
    a = full(256, 1.0)
    launch_tiled(kernel, dim=1, inputs=[a, a], block_dim=8)
    assert "the loops over its tiles become vector code" in engine.debug.explain(kernel)


@k.kernel
def a_bit_of_all(a: k.array(dtype=float, ndim=2), out: k.array(dtype=float, ndim=2), total: k.array(dtype=float)):
    i, j = k.tid()
    t = k.tile_load(a, shape=(8, 8), offset=(8 * i, 8 * j))
    t = k.tile_matmul(t, k.tile_transpose(t)) + k.tile_map(k.sin, t)
    k.tile_store(out, t, offset=(8 * i, 8 * j))
    k.tile_store(total, k.tile_sum(t), offset=2 * i + j)


def test_the_emulated_gpu_gives_the_same_bits():
    a, found = RNG.random((20, 10), dtype=np.float32), []
    for device in ("cpu", "emu"):
        given = [array(a, device=device), zeros((20, 10), device=device), zeros(6, device=device)]
        launch_tiled(a_bit_of_all, dim=(3, 2), inputs=given, block_dim=64, device=device)
        found.append(np.concatenate([given[1].numpy().ravel(), given[2].numpy()]))
    assert found[0].all() and (found[0] == found[1]).all()


# --- checked mode ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("three", [3, k.int32(3), np.int64(3), k.uint8(3)])
def test_constants_of_every_integer_type_are_indices(three):
    @k.kernel
    def uses_constant(out: k.array(dtype=float)):
        t = k.tile_arange(0.0, 5.0)
        out[0] = t[three]
        t[three] = 7.0
        k.tile_add_inplace(t, three, 2.0)
        out[1] = k.tile_view(t, offset=three)

    (out,) = run(uses_constant, poisoned(2))
    assert out.tolist() == [3.0, 9.0]


@k.kernel
def reach(a: k.array(dtype=float, ndim=2), i: int, how: int, out: k.array(dtype=float)):
    t = k.tile_transpose(k.tile_load(a, shape=(3, 4)))
    if how == 0:
        out[0] = t[i, 2]
    elif how == 1:
        out[0] = t[i][2]
    elif how == 2:
        out[0] = k.tile_view(t, offset=(i, 0), shape=(1, 3))[0, 2]
    else:
        out[0] = t[k.tile_full(1, i)][0, 2]


@pytest.mark.parametrize("how", range(4))
def test_checked_mode_finds_indices_outside_of_tiles(how):
    a, out = array(RNG.random((3, 4), dtype=np.float32)), zeros(1)
    with engine.config.scope(checked=True):
        launch(reach, 1, inputs=[a, 3, how, out])
        assert out.numpy()[0] == a.numpy()[2, 3]
        for i in (4, -5):
            with pytest.raises(BoundsError, match=f"index {i}"):
                launch(reach, 1, inputs=[a, i, how, out])


def test_annotations_of_tiles():
    assert k.tile[float, Literal[8], Literal[4]] == k.tile[float, 8, 4] == k.tile[float, (8, 4)] != k.tile[float]
    for extents in ((-1, 4), (0,), (2.0,), (True,), ((2, "a"),)):
        with pytest.raises(TypeError, match="an extent is a positive integer, got"):
            k.tile[float, *extents]
    with pytest.raises(TypeError, match="at least a dtype"):
        k.tile[()]


@k.struct
class Bag:
    data: k.array(dtype=float)
    tag: int


@k.kernel
def order_bags(keys: k.array(dtype=int), bags: k.array(dtype=Bag), back: k.array(dtype=Bag), out: k.array(dtype=float)):
    by, t = k.tile_load(keys, shape=4), k.tile_load(bags, shape=4)
    k.tile_sort(by, t)
    k.tile_store(back, t)
    stack = k.tile_stack(capacity=2, dtype=Bag)
    k.tile_stack_push(stack, t[0], True)
    top, _ = k.tile_stack_pop(stack)
    empty = k.tile_zeros(2, dtype=Bag)
    for i in range(4):
        bag = t[i]
        out[i] = 100.0 * float(bag.tag) + bag.data[0]
        bag.data[1] += float(i) + top.data[0] + float(empty[1].data.shape[0])


@k.kernel
def read_bags(bags: k.array(dtype=Bag), out: k.array(dtype=float)):
    i = k.tid()
    out[i] = 100.0 * float(bags[i].tag) + bags[i].data[1]


@pytest.mark.parametrize("checked", [False, True])
def test_elements_may_hold_arrays(device, checked):
    bags = [Bag(data=array([float(i), 50.0], device=device), tag=i) for i in range(4)]
    given, back = array(bags, dtype=Bag, device=device), zeros(4, dtype=Bag, device=device)
    keys, out = array([3, 1, 2, 0], dtype=int, device=device), zeros(4, device=device)
    with engine.config.scope(checked=checked):
        launch_tiled(order_bags, dim=1, inputs=[keys, given, back, out], block_dim=32, device=device)
        assert out.list() == [303, 101, 202, 0]
        launch(read_bags, 4, inputs=[back, out], device=device)
    assert out.list() == [353, 154, 255, 56]
