"""Matrix products, factors, Fourier transforms, sorts, stacks and indexed access of tiles, compared with NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.compiler import lang as k
from engine.context import array, launch_tiled, zeros

RNG = np.random.default_rng(11)


def run(kernel, *args):
    """Launches one block; NumPy arrays go in and come back."""
    given = [array(a) if isinstance(a, np.ndarray) else a for a in args]
    launch_tiled(kernel, dim=1, inputs=given, block_dim=32)
    return [a.numpy() for a in given if isinstance(a, array)]


def poisoned(*shape, dtype=np.float32):
    return np.full(shape, -77, dtype)


# --- products -------------------------------------------------------------------------------------------------------


@k.kernel
def products(a: k.array(dtype=float, ndim=2), b: k.array(dtype=float, ndim=2), out: k.array(dtype=float, ndim=3),
             beta: float):  # fmt: skip
    x = k.tile_load(a, shape=(5, 7))
    y = k.tile_load(b, shape=(7, 5))
    k.tile_store(out[0], k.tile_matmul(x, y))
    k.tile_store(out[1], x @ y * 2.0)
    c = k.tile_ones(shape=(5, 5))
    k.tile_matmul(x, y, c)
    k.tile_matmul(k.tile_transpose(y), k.tile_transpose(x), c, alpha=0.5, beta=2.0)
    k.tile_store(out[2], c)
    d = k.tile_full(shape=(5, 5), value=k.inf)
    k.tile_matmul(x[:, 1:4], y[2:7:2], d, beta=beta)
    k.tile_store(out[3], d)


def test_products():
    a, b = RNG.random((5, 7), dtype=np.float32), RNG.random((7, 5), dtype=np.float32)
    out = run(products, a, b, poisoned(4, 5, 5), 0.0)[2]
    assert np.allclose(out[0], a @ b, rtol=1e-6) and (out[1] == 2 * out[0]).all()
    assert np.allclose(out[2], 2 * (1 + a @ b) + 0.5 * (a @ b).T, rtol=1e-5)
    assert np.allclose(out[3], a[:, 1:4] @ b[2:7:2], rtol=1e-6), "with beta = 0 it does not matter what was there"


@k.kernel
def dot_as_product(a: k.array(dtype=float, ndim=2), b: k.array(dtype=float, ndim=2), out: k.array(dtype=float, ndim=2),
                   one_by_one: k.array(dtype=float)):  # fmt: skip
    k.tile_store(out, k.tile_matmul(k.tile_load(a, shape=(1, 50)), k.tile_load(b, shape=(50, 1))))
    s = 0.0
    for i in range(50):
        s += a[0, i] * b[i, 0]
    one_by_one[0] = s


def test_products_are_summed_in_order():
    a, b = RNG.standard_normal((1, 50)).astype(np.float32), RNG.standard_normal((50, 1)).astype(np.float32)
    _, _, out, one_by_one = run(dot_as_product, a, b, poisoned(1, 1), poisoned(1))
    assert out[0, 0] == one_by_one[0]


@k.kernel
def complex_product(a: k.array(dtype=k.vec2d, ndim=2), b: k.array(dtype=k.vec2d, ndim=2),
                    out: k.array(dtype=k.vec2d, ndim=2)):  # fmt: skip
    k.tile_store(out, k.tile_matmul(k.tile_load(a, shape=(3, 4)), k.tile_load(b, shape=(4, 2)), alpha=2.0))


def test_vectors_of_two_are_complex_numbers():
    a = RNG.random((3, 4)) + 1j * RNG.random((3, 4))
    b = RNG.random((4, 2)) + 1j * RNG.random((4, 2))
    given = [array(m.view(np.float64).reshape(*m.shape, 2), dtype=k.vec2d) for m in (a, b)]
    out = zeros((3, 2), dtype=k.vec2d)
    launch_tiled(complex_product, dim=1, inputs=[*given, out], block_dim=8)
    assert np.allclose(out.numpy()[..., 0] + 1j * out.numpy()[..., 1], 2 * a @ b)


@k.kernel
def half_product(a: k.array(dtype=k.float16, ndim=2), out: k.array(dtype=k.float16, ndim=2)):
    t = k.tile_load(a, shape=(4, 64))
    k.tile_store(out, k.tile_matmul(t, k.tile_transpose(t)))


def test_halves_are_summed_in_float32():
    a = RNG.random((4, 64)).astype(np.float16)
    out = run(half_product, a, poisoned(4, 4, dtype=np.float16))[1]
    assert (np.abs(out - (a.astype(np.float64) @ a.T)) <= np.spacing(out)).all()


@k.kernel
def small_sums(a: k.array(dtype=float, ndim=2), v: k.array(dtype=k.vec3), out: k.array(dtype=float),
               y: k.array(dtype=float, ndim=2)):  # fmt: skip
    t = k.tile_load(a, shape=(3, 3))
    k.tile_store(out, k.tile_dot(t, t), offset=0)
    k.tile_store(out, k.tile_dot(k.tile_load(v, shape=2), k.tile_load(v, shape=2)), offset=1)
    k.tile_axpy(2.0, t, t)
    k.tile_store(y, k.tile_diag_add(t, k.tile_full(3, 10.0)))


def test_dot_axpy_and_diagonals():
    a, v = RNG.random((3, 3), dtype=np.float32), array(RNG.random((2, 3), dtype=np.float32), dtype=k.vec3)
    _, _, out, y = run(small_sums, a, v, poisoned(2), poisoned(3, 3))
    assert np.allclose(out, [(a * a).sum(), (v.numpy() ** 2).sum()])
    assert np.allclose(y, 3 * a + 10 * np.eye(3))


# --- factors and solutions ------------------------------------------------------------------------------------------


@k.kernel
def factors(a: k.array(dtype=k.float64, ndim=2), b: k.array(dtype=k.float64, ndim=2), c: k.array(dtype=k.float64),
            out: k.array(dtype=k.float64, ndim=3), xs: k.array(dtype=k.float64, ndim=3)):  # fmt: skip
    t = k.tile_load(a, shape=(6, 6))
    low, up = k.tile_cholesky(t), k.tile_cholesky(t, fill_mode="upper")
    k.tile_store(out[0], low)
    k.tile_store(out[1], up)
    y, z = k.tile_load(b, shape=(6, 2)), k.tile_load(c, shape=6)
    k.tile_store(xs[0], k.tile_cholesky_solve(low, y))
    k.tile_store(xs[1], k.tile_cholesky_solve(up, y, fill_mode="upper"))
    k.tile_store(xs[2], k.tile_lower_solve(low, y))
    k.tile_store(xs[3], k.tile_upper_solve(up, y))
    k.tile_store(xs[4], k.tile_reshape(k.tile_cholesky_solve(low, z), shape=(6, 1)))
    k.tile_cholesky_inplace(t)
    k.tile_store(out[2], t)
    k.tile_lower_solve_inplace(t, z)
    k.tile_upper_solve_inplace(k.tile_transpose(t), z)
    k.tile_store(xs[5], k.tile_reshape(z, shape=(6, 1)))


def test_factors_and_solutions():
    m = RNG.random((6, 6))
    a, b, c = m @ m.T + np.eye(6), RNG.random((6, 2)), RNG.random(6)
    _, _, _, out, xs = run(factors, a, b, c, poisoned(3, 6, 6, dtype=np.float64), poisoned(6, 6, 2, dtype=np.float64))
    low = np.linalg.cholesky(a)
    assert np.allclose(out[0], low) and np.allclose(out[1], low.T) and np.allclose(out[2], low)
    x = np.linalg.solve(a, b)
    assert np.allclose(xs[0], x) and np.allclose(xs[1], x)
    assert np.allclose(xs[2], np.linalg.solve(low, b)) and np.allclose(xs[3], np.linalg.solve(low.T, b))
    assert np.allclose(xs[4:, :, 0], np.linalg.solve(a, c)) and (xs[4:, :, 1] == -77).all()


@k.kernel
def one_triangle(a: k.array(dtype=float, ndim=2), out: k.array(dtype=float, ndim=3)):
    t = k.tile_load(a, shape=(2, 2))
    k.tile_store(out[0], k.tile_cholesky(t))
    k.tile_store(out[1], k.tile_cholesky(t, fill_mode="upper"))
    k.tile_store(out[2], k.tile_cholesky(t * -1.0))


def test_one_triangle_is_read_and_what_is_not_positive_gives_nan():
    a = np.array([[4.0, 2.0], [6.0, 25.0]], np.float32)
    out = run(one_triangle, a, poisoned(3, 2, 2))[1]
    assert out[0].tolist() == [[2.0, 0.0], [3.0, 4.0]]
    assert np.allclose(out[1], [[2.0, 1.0], [0.0, np.sqrt(24.0)]])
    assert np.isnan(out[2][0, 0])


# --- transforms -----------------------------------------------------------------------------------------------------


def transforms(n):
    @k.kernel
    def transform(a: k.array(dtype=k.vec2d, ndim=2), there: k.array(dtype=k.vec2d, ndim=2),
                  back: k.array(dtype=k.vec2d, ndim=2)):  # fmt: skip
        t = k.tile_load(a, shape=(2, n))
        k.tile_fft(t)
        k.tile_store(there, t)
        k.tile_ifft(t)
        k.tile_store(back, t)

    return transform


@pytest.mark.parametrize("n", [1, 2, 7, 12, 30, 64])
def test_fourier_transforms(n):
    z = RNG.standard_normal((2, n)) + 1j * RNG.standard_normal((2, n))
    a = array(z.view(np.float64).reshape(2, n, 2), dtype=k.vec2d)
    there, back = zeros((2, n), dtype=k.vec2d), zeros((2, n), dtype=k.vec2d)
    launch_tiled(transforms(n), dim=1, inputs=[a, there, back], block_dim=8)
    found, returned = (m.numpy()[..., 0] + 1j * m.numpy()[..., 1] for m in (there, back))
    assert np.abs(found - np.fft.fft(z)).max() <= 1e-14 * n * np.abs(z).max() + 1e-15
    assert np.abs(returned - n * z).max() <= 1e-14 * n * n


# --- sorting --------------------------------------------------------------------------------------------------------


def sorter(n, dtype):
    @k.kernel
    def sort(keys: k.array(dtype=dtype), values: k.array(dtype=int)):
        t, v = k.tile_load(keys, shape=n), k.tile_load(values, shape=n)
        k.tile_sort(t, v)
        k.tile_store(keys, t)
        k.tile_store(values, v)

    return sort


@settings(max_examples=10, deadline=None)
@given(n=st.sampled_from([1, 2, 3, 16, 45]), few=st.booleans(), seed=st.integers(0, 2**31))
def test_sorts_are_stable(n, few, seed):
    keys = np.random.default_rng(seed).integers(0, 3 if few else 2**31, n, dtype=np.int32)
    found, values = run(sorter(n, k.int32), keys.copy(), np.arange(n, dtype=np.int32))
    order = np.argsort(keys, kind="stable")
    assert (found == keys[order]).all() and (values == order).all()


def test_nan_is_sorted_behind_everything():
    keys = np.array([2.0, np.nan, -np.inf, np.inf, np.nan, -1.0], np.float32)
    found, values = run(sorter(6, k.float32), keys, np.arange(6, dtype=np.int32))
    assert found[:4].tolist() == [-np.inf, -1.0, 2.0, np.inf] and np.isnan(found[4:]).all()
    assert values.tolist() == [2, 5, 0, 3, 1, 4]


# --- indices, stacks, random numbers --------------------------------------------------------------------------------


@k.kernel
def by_index(a: k.array(dtype=float, ndim=2), indices: k.array(dtype=int), out: k.array(dtype=float, ndim=2),
             sums: k.array(dtype=float, ndim=2)):  # fmt: skip
    i = k.tile_load(indices, shape=4)
    t = k.tile_load_indexed(a, indices=i, shape=(4, 3), offset=(1, 0), axis=0)
    k.tile_store_indexed(out, indices=i, t=k.tile_transpose(t), axis=1)
    k.tile_atomic_add_indexed(sums, indices=k.tile_zeros(4, dtype=int), t=t)


def test_indices_of_an_axis_come_from_a_tile():
    a, indices = RNG.random((6, 3), dtype=np.float32), np.array([4, 0, 9, -1], np.int32)
    _, _, out, sums = run(by_index, a, indices, poisoned(3, 5), np.zeros((2, 3), np.float32))
    picked = np.array([a[5], a[1], np.zeros(3), a[0]], np.float32)
    assert (out[:, [4, 0]] == picked[:2].T).all() and (out[:, 1:4] == -77).all()
    assert np.allclose(sums, [picked.sum(axis=0), [0, 0, 0]])


@k.kernel
def scatter(out: k.array(dtype=int, ndim=2)):
    t = k.tile_ones(shape=(2, 3), dtype=int)
    k.tile_scatter_add(t, 1, 2, 5, True)
    k.tile_scatter_add(t, 1, 2, 50, False, atomic=False)
    k.tile_scatter_masked(t, 0, 1, 7, True)
    k.tile_scatter_masked(t, 0, 0, 70, t[0, 1] < 0)
    k.tile_add_inplace(t, 1, 0, 2)
    k.tile_bit_xor_inplace(t, 1, 1, 3)
    k.tile_store(out, t)


def test_single_elements_are_changed_where_a_condition_holds():
    assert run(scatter, poisoned(2, 3, dtype=np.int32))[0].tolist() == [[1, 7, 1], [3, 2, 6]]


@k.func
def push_twice(s: k.tile_stack(capacity=3, dtype=k.vec2), x: float):
    k.tile_stack_push(s, k.vec2(x, 0.0), True)
    k.tile_stack_push(s, k.vec2(x, 1.0), x > 0.0)


@k.kernel
def stacks(out: k.array(dtype=float), places: k.array(dtype=int)):
    s = k.tile_stack(capacity=3, dtype=k.vec2)
    _, places[0] = k.tile_stack_pop(s)
    push_twice(s, 4.0)
    push_twice(s, -1.0)
    places[1] = k.tile_stack_push(s, k.vec2(9.0, 9.0), True)
    places[2] = k.tile_stack_count(s)
    value, slot = k.tile_stack_pop(s)
    out[0], places[3] = value.x, slot
    value, slot = k.tile_stack_pop(s)
    out[1], places[4] = value.y, slot
    k.tile_stack_clear(s)
    places[5] = k.tile_stack_count(s)


def test_stacks():
    out, places = run(stacks, poisoned(2), poisoned(6, dtype=np.int32))
    assert out.tolist() == [-1.0, 1.0]
    assert places.tolist() == [-1, -1, 3, 2, 1, 0]


@k.kernel
def random_tiles(out: k.array(dtype=float), one_by_one: k.array(dtype=float), whole: k.array(dtype=int)):
    rng = k.rand_init(42)
    k.tile_store(out, k.tile_randf(shape=8, rng=rng))
    k.tile_store(whole, k.tile_randi(shape=8, rng=rng, min=-5, max=5))
    for i in range(8):
        state = k.rand_init(int(rng) + i)
        one_by_one[i] = k.randf(state)


def test_random_elements_follow_from_the_state_and_their_position():
    out, one_by_one, whole = run(random_tiles, poisoned(8), poisoned(8), poisoned(8, dtype=np.int32))
    assert (out == one_by_one).all() and len(set(out)) == 8
    assert whole.min() >= -5 and whole.max() < 5
