"""The language means what Python means: control flow, values and places against the same function run by Python."""

from typing import Any

import numpy as np
import pytest

import engine
from engine.compiler import lang as k


@k.struct
class Hit:
    t: float
    normal: k.vec3
    ids: k.vec2i


@k.struct
class Nested:
    hit: Hit
    weight: float


def run(kernel, n, *inputs, out=None, device="cpu"):
    """Launches over n threads with a poisoned float32 output of n elements (or `out`), and gives the output."""
    result = engine.full(n, np.nan, dtype=float, device=device) if out is None else out
    engine.launch(kernel, dim=n, inputs=[*inputs, result], device=device)
    return result.numpy()


@k.kernel
def early_return(n: int, out: k.array(dtype=float)):
    i = k.tid()
    if i >= n:
        out[i] = -1.0
        return
    x = float(i) * 2.0
    if i % 2 == 0:
        out[i] = x
        return
    else:
        x = x + 100.0
    out[i] = x


def test_early_return(device):
    got = run(early_return, 8, 5, device=device)
    assert got.tolist() == [0, 102, 4, 106, 8, -1, -1, -1]


@k.func
def first_divisor(n: int):
    d = 2
    while d * d <= n:
        if n % d == 0:
            return d
        d += 1
    return n


@k.func
def collatz(n: int, limit: int):
    steps = 0
    while True:
        if n == 1:
            break
        if steps >= limit:
            return -1
        if n % 2 == 0:
            n = n // 2
            steps += 1
            continue
        n = 3 * n + 1
        steps += 1
    return steps


@k.kernel
def loops(out: k.array(dtype=float)):
    i = k.tid()
    out[i] = float(first_divisor(i + 2) + 1000 * collatz(i + 1, 20))


def test_loops_with_return_break_and_continue(device):
    got = run(loops, 64, device=device)
    expected = [first_divisor(i + 2) + 1000 * collatz(i + 1, 20) for i in range(64)]
    assert got.tolist() == expected


@k.func
def nested_sum(n: int, stop: int):
    total = 0
    for a in range(n):
        for b in range(a, -1, -1):
            if b == stop:
                break
            if (a + b) % 3 == 0:
                continue
            if total > 500:
                return -total
            total += a * b + 1
    return total


@k.kernel
def nested_loops(out: k.array(dtype=float)):
    i = k.tid()
    out[i] = float(nested_sum(i, i // 3))


def test_nested_loops(device):
    got = run(nested_loops, 40, device=device)
    assert got.tolist() == [nested_sum(i, i // 3) for i in range(40)]


@k.kernel
def loop_variable_is_also_a_local(out: k.array(dtype=float)):
    i = k.tid()
    j = 7
    for j in range(i):  # noqa: B007
        pass
    out[i] = float(j)


def test_loop_variable_keeps_its_last_value(device):
    assert run(loop_variable_is_also_a_local, 4, device=device).tolist() == [7, 0, 1, 2]


@k.kernel
def short_circuit(a: k.array(dtype=int), out: k.array(dtype=float)):
    i = k.tid()
    if i < 3 and a[i] > 10 or i == 5:
        out[i] = 1.0
    else:
        out[i] = 0.0


def test_and_or_evaluate_the_right_side_only_when_needed(device):
    a = engine.array([5, 11, 12], dtype=int, device=device)
    assert run(short_circuit, 6, a, device=device).tolist() == [0, 1, 1, 0, 0, 1]


@k.kernel
def places(
    hits: k.array(dtype=Nested), m: k.array(dtype=k.mat33), q: k.array(dtype=k.transform), out: k.array(dtype=float)
):
    i = k.tid()
    h = hits[i]
    h.hit.normal.y = h.hit.normal.y + 2.0
    h.hit.ids[1] += 5
    h.weight *= 3.0
    hits[i] = h
    hits[i].hit.t = 9.0
    hits[i].hit.normal[2] = hits[i].hit.normal[2] + 0.5
    m[i][1, 2] = 4.0
    row = m[i][1]
    q[i].p = k.vec3(1.0, 2.0, 3.0)
    q[i].q.w = 0.25
    v = k.vec3()
    for c in range(3):
        v[c] = row[c]
    dynamic = i % 3
    v[dynamic] = v[dynamic] + 10.0
    out[i] = v.x + 100.0 * v.y + 10000.0 * v.z


def test_places(device):
    hits = engine.zeros(3, dtype=Nested, device=device)
    m = engine.zeros(3, dtype=k.mat33, device=device)
    q = engine.zeros(3, dtype=k.transform, device=device)
    got = run(places, 3, hits, m, q, device=device)
    assert got.tolist() == [10 + 40000, 1000 + 40000, 140000]
    assert m.numpy()[2].tolist() == [[0, 0, 0], [0, 0, 4], [0, 0, 0]]
    assert q.numpy()[1].tolist() == [1, 2, 3, 0, 0, 0, 0.25]
    first = hits.numpy()[0]["hit"]
    assert first["t"] == 9 and first["normal"].tolist() == [0, 2, 0.5] and first["ids"].tolist() == [0, 5]


@k.func
def sort_in_place(values, count: int):
    """Insertion sort of a local array."""
    for a in range(1, count):
        x = values[a]
        b = a - 1
        while b >= 0 and values[b] > x:
            values[b + 1] = values[b]
            b -= 1
        values[b + 1] = x


@k.kernel
def local_arrays(out: k.array(dtype=float)):
    i = k.tid()
    values = k.zeros(shape=10, dtype=float)
    points = k.zeros(shape=4, dtype=k.vec3)
    for j in range(10):
        values[j] = float((j * 7 + i * 3) % 11)
    sort_in_place(values, 10)
    points[i % 4].y = values[i % 10]
    total = 0.0
    for j in range(4):
        total += points[j].y
    out[i] = total + values[9] * 100.0


def test_local_arrays_are_passed_by_reference(device):
    expected = []
    for i in range(12):
        values = sorted((j * 7 + i * 3) % 11 for j in range(10))
        expected.append(values[i % 10] + values[9] * 100.0)
    assert run(local_arrays, 12, device=device).tolist() == expected


@k.func
def bounds(x: float, y: float):
    if x < y:
        return x, y, True
    return y, x, False


@k.kernel
def tuples(out: k.array(dtype=float)):
    i = k.tid()
    low, high, ordered = bounds(float(i), 3.0)
    low, high = high, low
    out[i] = low * 10.0 + high + (100.0 if ordered else 0.0)


def test_tuples(device):
    assert run(tuples, 6, device=device).tolist() == [130, 131, 132, 33, 43, 53]


@k.kernel
def two_dimensional(out: k.array(dtype=float, ndim=2), scale: float):
    i, j = k.tid()
    row = out[i]
    row[j] = float(i) * scale + float(j)


def test_two_dimensional_launch_and_row_views(device):
    out = engine.full((3, 5), np.nan, dtype=float, device=device)
    engine.launch(two_dimensional, dim=(3, 5), inputs=[out, 10.0], device=device)
    np.testing.assert_array_equal(out.numpy(), np.arange(3)[:, None] * 10.0 + np.arange(5))


@k.kernel
def generic(x: k.array(), out: k.array(dtype=float)):
    i = k.tid()
    out[i] = float(x[i] * x[i] + 1)


@pytest.mark.parametrize("dtype", [k.int32, k.int64, k.float32, k.float64, k.uint8])
def test_generic_kernels_specialise_to_their_arguments(device, dtype):
    x = engine.array([1, 2, 3], dtype=dtype, device=device)
    assert run(generic, 3, x, device=device).tolist() == [2, 5, 10]


@k.kernel
def atomics(bins: k.array(dtype=int), low: k.array(dtype=int), sums: k.array(dtype=float), out: k.array(dtype=float)):
    i = k.tid()
    bins[i % 4] += 1
    k.atomic_min(low, 0, -i)
    k.atomic_add(sums, 0, 0.5)
    out[i] += 1.0


def test_atomics(device):
    bins, low = engine.zeros(4, dtype=int, device=device), engine.zeros(1, dtype=int, device=device)
    sums, out = engine.zeros(1, dtype=float, device=device), engine.zeros(10_000, dtype=float, device=device)
    run(atomics, 10_000, bins, low, sums, out=out, device=device)
    assert bins.numpy().tolist() == [2500] * 4
    assert low.numpy()[0] == -9999 and sums.numpy()[0] == 5000
    assert (out.numpy() == 1).all()


def bitwise(ints: k.array(dtype=k.uint32), pairs: k.array(dtype=k.vec2ui), flags: k.array(dtype=k.bool_, ndim=2)):
    i = k.tid()
    bit = k.uint32(1) << k.uint32(i % 32)
    ints[0] |= bit
    ints[1] ^= k.uint32(i)
    ints[2] &= ~bit | k.uint32(255)
    pairs[i // 32] |= k.vec2ui(bit, k.uint32(i))
    flags[i // 32, 0] |= i == 70
    flags[i // 32, 1] &= i != 5
    flags[i // 32, 2] |= True
    flags[i // 32, 3] &= True


@pytest.mark.parametrize("shape", ["thread", "lanes"])
def test_updates_by_bits_are_atomic(device, shape):
    """32 threads have one element, and several lanes do it at once."""
    every = 2**32 - 1
    ints = engine.array([0, 0, every], dtype=k.uint32, device=device)
    pairs = engine.zeros(3, dtype=k.vec2ui, device=device)
    flags = engine.array([[0, 1, 0, 0]] * 3, dtype=k.bool_, device=device)
    engine.launch(k.kernel(bitwise, shape=shape), 96, inputs=[ints, pairs, flags], device=device)
    assert ints.numpy().tolist() == [every, int(np.bitwise_xor.reduce(np.arange(96))), 255]
    assert pairs.numpy().tolist() == [[every, 31], [every, 63], [every, 95]]
    assert flags.numpy().tolist() == [[0, 0, 1, 0], [0, 1, 1, 0], [1, 1, 1, 0]]


@k.kernel
def integers(a: k.array(dtype=int), b: k.array(dtype=int), out: k.array(dtype=int, ndim=2)):
    i = k.tid()
    out[i, 0] = a[i] // b[i]
    out[i, 1] = a[i] % b[i]
    out[i, 2] = a[i] / b[i]
    out[i, 3] = a[i] << b[i]
    out[i, 4] = a[i] >> b[i]


def test_integer_division_is_pythons_and_never_traps(device):
    low = -(2**31)
    a = np.array([7, -7, 7, -7, 5, low, low, 0], np.int32)
    b = np.array([2, 2, -2, -2, 0, -1, 0, 0], np.int32)
    out = engine.full((8, 5), -99, dtype=int, device=device)
    engine.launch(
        integers, dim=8, inputs=[engine.array(a, device=device), engine.array(b, device=device), out], device=device
    )
    got = out.numpy()
    for i in range(8):
        x, y = int(a[i]), int(b[i])
        floor, mod = (x // y, x % y) if y else (0, 0)
        trunc = int(abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1) if y else 0
        wrap = np.array([floor, mod, trunc], np.int64).astype(np.int32).tolist()
        assert got[i, :3].tolist() == wrap, (x, y)
        assert got[i, 3] == np.int64(x << (y & 31)).astype(np.int32) and got[i, 4] == x >> (y & 31)


@k.kernel
def floor_and_remainder(a: k.array(dtype=Any), b: k.array(dtype=Any), out: k.array(dtype=Any, ndim=2)):
    i = k.tid()
    out[i, 0] = a[i] // b[i]
    out[i, 1] = a[i] % b[i]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floor_division_of_floats_is_pythons(dtype, device, rng):
    """1 // 0.1 is 9: from the exact remainder, not from the rounded quotient."""
    some = np.array([0.0, -0.0, 1.0, -1.0, 0.1, -0.3, 3.0, 7.5, np.inf, -np.inf, np.nan])
    x, y = (v.ravel() for v in np.meshgrid(some, some))
    x = np.concatenate([x, rng.normal(size=2000) * 10, rng.integers(-50, 50, 2000) * 0.1]).astype(dtype)
    y = np.concatenate([y, rng.normal(size=2000), rng.integers(1, 9, 2000) * 0.1]).astype(dtype)
    out = engine.full((len(x), 2), -99, dtype=dtype, device=device)
    engine.launch(floor_and_remainder, len(x), [engine.array(v, device=device) for v in (x, y)] + [out], device=device)
    with np.errstate(all="ignore"):
        want = np.stack([x // y, x % y], 1)
    np.testing.assert_array_equal(out.numpy(), want)
    known = ~np.isnan(want)
    assert (np.signbit(out.numpy()) == np.signbit(want))[known].all()


def test_floor_division_of_vectors_is_by_component(device):
    @k.kernel
    def divide(out: k.array(dtype=k.vec3)):
        v = k.vec3(1.0, 7.0, 7.0)
        out[0] = v // k.vec3(0.1, 2.0, -2.0)

    out = engine.zeros(1, dtype=k.vec3, device=device)
    engine.launch(divide, 1, [out], device=device)
    assert out.numpy().tolist() == [[9.0, 3.0, -4.0]]


SCALE = 3
UP = k.vec3(0.0, 0.0, 1.0)


@k.kernel
def constants(out: k.array(dtype=float)):
    i = k.tid()
    v = UP * float(SCALE)
    x = 0.1  # a literal stays exact until it meets a type
    y = k.float64(x) + k.float64(0.2)
    out[i] = v.z + float(k.static(len("abc"))) + (1.0 if y == 0.1 + 0.2 else 0.0)


def test_captured_constants(device):
    assert run(constants, 1, device=device).tolist() == [7.0]


@k.kernel
def small_powers(x: k.array(dtype=k.float64), out: k.array(dtype=k.float64, ndim=2)):
    i = k.tid()
    out[i, 0] = x[i] ** 2
    out[i, 1] = x[i] ** 3.0
    out[i, 2] = x[i] ** 4
    out[i, 3] = x[i] ** 5


def test_small_whole_powers_are_products(device):
    x = np.array([-1.5, 0.1, 3.0, np.inf, -0.0])
    out = engine.full((5, 4), np.nan, dtype=k.float64, device=device)
    engine.launch(small_powers, dim=5, inputs=[engine.array(x, dtype=k.float64, device=device), out], device=device)
    expected = np.stack([x * x, (x * x) * x, (x * x) * (x * x)], axis=1)
    np.testing.assert_array_equal(out.numpy()[:, :3], expected)
    np.testing.assert_allclose(out.numpy()[:, 3], x**5, rtol=1e-15)
    text = str(small_powers.stages["hir"])
    assert text.count("callee=@pow") == 1


@k.kernel
def rounded(x: k.array(dtype=float), out: k.array(dtype=float)):
    i = k.tid()
    out[i] = round(x[i])


def test_round_is_the_languages(device):
    """As in Warp: a float, ties away from zero."""
    x = engine.array([0.5, 1.5, -2.5, 0.49999997, -0.2], dtype=float, device=device)
    assert run(rounded, 5, x, device=device).tolist() == [1.0, 2.0, -3.0, 0.0, -0.0]


@k.func
def raised(t: k.ref[float]):
    t = t + 1.0
    return k.tile_full(3, t)


@k.kernel
def raise_twice(out: k.array(dtype=float)):
    t = 1.0
    first = raised(t)
    second = raised(t)
    k.tile_store(out, first + second * 10.0)
    out[0] += t


def test_functions_give_tiles_beside_what_they_change(device):
    out = engine.full(3, np.nan, dtype=float, device=device)
    engine.launch_tiled(raise_twice, dim=1, inputs=[out], block_dim=32, device=device)
    assert out.numpy().tolist() == [35.0, 32.0, 32.0]


@k.kernel
def place_in_block(out: k.array(dtype=int)):
    t = k.tile_ones(2, dtype=int)
    out[k.tid()] = k.thread_id() + k.lane_id() + k.warp_id() + 10 * k.block_dim() + t[1]


def test_a_block_with_tiles_is_its_first_thread(device):
    out = engine.zeros(3, dtype=int, device=device)
    engine.launch(place_in_block, 3, inputs=[out], device=device)
    assert out.numpy().tolist() == [11] * 3


@k.func
def named(dtype: Any) -> int:
    return 1 if dtype == k.float32 else 2 if k.int32 == dtype else 3 if dtype == k.bool_ else 4


@k.kernel
def name_types(out: k.array(dtype=int)):
    out[0], out[1], out[2], out[3] = named(float), named(int), named(bool), named(k.float64)
    out[4], out[5] = named(k.float32), 1 if type(out[0]) == int else 2  # noqa: E721


def test_pythons_types_equal_those_that_they_mean(device):
    out = engine.full(6, -1, dtype=int, device=device)
    engine.launch(name_types, 1, inputs=[out], device=device)
    assert out.numpy().tolist() == [1, 2, 3, 4, 1, 1]


@k.func
def weighted_sum(x: float):
    total = x * 0.0
    for i in range(12):
        total += x * float(i)
    return total


def weighted(y: k.array(dtype=float)):
    for i in range(3):
        y[i] = weighted_sum(y[i])


@pytest.mark.parametrize(
    ("options", "loops"),
    [({}, 0), ({"max_unroll": 12}, 0), ({"max_unroll": 3}, 3), ({"max_unroll": 2}, 2), ({"max_unroll": 0}, 2),
     ({"module_options": {"max_unroll": 11}}, 3)],
)  # fmt: skip
def test_max_unroll_says_which_loops_are_taken_apart(options, loops):
    """In the kernel and in what it calls. The result is the same."""
    kernel = engine.kernel(**options)(weighted)
    y = engine.array([1.0, 2.0, 3.0], dtype=float)
    engine.launch(kernel, 1, [y])
    assert y.numpy().tolist() == [66.0, 132.0, 198.0]
    assert sum(line.strip().startswith("for ") for line in kernel.stages["mir"].splitlines()) == loops


def test_max_unroll_of_a_module():
    kernel = k.kernel(module="unrolled")(weighted)
    with pytest.raises(ValueError, match="max_unroll must be an integer from 0 to 1024, got -1"):
        engine.kernel(max_unroll=-1)
    with pytest.raises(ValueError, match="max_unroll"):
        kernel.module.set_options({"max_unroll": True})
    kernel.module.set_options({"max_unroll": 5})
    y = engine.ones(3)
    engine.launch(kernel, 1, [y])
    assert "for " in kernel.stages["mir"]
    kernel.module.set_options({"max_unroll": 16})
    engine.launch(kernel, 1, [y])
    assert "for " not in kernel.stages["mir"] and y.numpy().tolist() == [66.0**2] * 3
