"""`map` and the operators of arrays against NumPy: functions of every kind, broadcasting, outputs, errors."""

import operator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp

from engine.compiler import lang as k
from engine.context import array, indexedarray, map, zeros
from engine.context.map import _kernel

OFFSET = 3.0


@k.struct
class Pair:
    a: float
    b: float


@k.func
def pair(x: float, y: float):
    p = Pair()
    p.a = x
    p.b = y
    return p


@k.func
def both(x: float):
    return x + 1.0, k.vec2(x, -x)


@k.func
def whole(i: int):
    return float(i)


@k.func
def nothing(x: float):
    pass


NUMBERS = np.linspace(-2, 3, 11, dtype=np.float32)


def test_functions_of_every_kind(device):
    a, scale = array(NUMBERS, device=device), 2.5
    np.testing.assert_allclose(map(k.sin, a).numpy(), np.sin(NUMBERS), rtol=1e-6)
    scaled = map(lambda x: x * scale + OFFSET, a)
    np.testing.assert_allclose(scaled.numpy(), NUMBERS * np.float32(2.5) + np.float32(3), rtol=1e-6)
    np.testing.assert_array_equal(map(k.clamp, a, -0.5, 0.5).numpy(), NUMBERS.clip(-0.5, 0.5))
    np.testing.assert_array_equal(map(k.int32, a).numpy(), NUMBERS.astype(np.int32))
    first, second = map(both, a)
    assert first.list() == (NUMBERS + 1).tolist() and second[0] == k.vec2(-2.0, 2.0)
    assert map(pair, a, 1.0)[3] == Pair(a=NUMBERS[3], b=1.0)
    assert map(lambda v, m: k.dot(v, m), second, k.vec2(1, 1)).numpy().tolist() == [0.0] * 11


@settings(deadline=None, max_examples=60)
@given(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, min_dims=1, max_side=4))
def test_broadcasting_agrees_with_numpy(shapes):
    x, y = (np.arange(np.prod(s), dtype=np.float32).reshape(s) for s in shapes.input_shapes)
    got = array(x) - array(y)
    assert got.shape == shapes.result_shape
    np.testing.assert_array_equal(got.numpy(), x - y)


@pytest.mark.parametrize("op", [operator.add, operator.sub, operator.mul, operator.truediv, operator.mod])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_operators_of_floats(op, dtype, device):
    x, y = NUMBERS.astype(dtype), (NUMBERS[::-1] + 7).astype(dtype)
    a, b = array(x, device=device), array(y, device=device)
    for got, expected in ((op(a, b), op(x, y)), (op(a, 2.5), op(x, dtype(2.5))), (op(2.5, b), op(dtype(2.5), y))):
        assert got.numpy().dtype == dtype
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-6, atol=1e-6)


WHOLE = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.floordiv, operator.mod]


@pytest.mark.parametrize("op", WHOLE)
def test_operators_of_integers(op, device):
    x, y = np.arange(-5, 5, dtype=np.int32), np.arange(1, 11, dtype=np.int32)
    np.testing.assert_array_equal(op(array(x, device=device), array(y, device=device)).numpy(), op(x, y))
    np.testing.assert_array_equal(op(array(x, device=device), 3).numpy(), op(x, 3))


def test_unary_and_in_place_operators(device):
    a = array(NUMBERS, device=device)
    before, view = a.ptr, a[1:]
    a += 1.0
    view *= view
    expected = NUMBERS + 1
    expected[1:] **= 2
    np.testing.assert_array_equal((-a).numpy(), -expected)
    np.testing.assert_array_equal((+a).numpy(), expected)
    assert a.ptr == before and (~array([1, 2])).list() == [-2, -3]
    np.testing.assert_allclose((array([2.0, 3.0]) ** 3.0).numpy(), [8, 27])
    rows = indexedarray(a, [array([2, 0], device=device)])
    rows += 10.0
    expected[[2, 0]] += 10
    np.testing.assert_array_equal(a.numpy(), expected)
    assert (a == a) is True and len({a, view}) == 2  # equality is that of the objects
    with pytest.raises(TypeError, match="unsupported operand"):
        a + "text"


def test_given_outputs(device):
    a = array(NUMBERS, device=device)
    out, pairs = zeros(11, device=device), zeros(11, dtype=k.vec2, device=device)
    assert map(k.cos, a, out=out) is out
    np.testing.assert_allclose(out.numpy(), np.cos(NUMBERS), rtol=1e-6)
    assert map(both, a, out=[out, pairs])[1] is pairs
    for wrong, message in ((zeros(3), r"Output array shape \(3,\) does not match expected shape \(11,\)"),
                           (zeros(11, dtype=int), "Output array dtype int32 does not match expected dtype float32"),
                           ([out, out], r"output arrays \(2\) does not match expected number of function outputs"),
                           ("text", "must be an array")):  # fmt: skip
        with pytest.raises(TypeError, match=message):
            map(k.cos, a, out=wrong)


def test_what_is_refused():
    a = array(NUMBERS)
    with pytest.raises(TypeError, match="must return a value"):
        map(nothing, a)
    with pytest.raises(TypeError, match=r"input arguments \(2\) does not match expected number of function"):
        map(both, a, a)
    with pytest.raises(TypeError, match="whole does not support the provided argument types float32"):
        map(whole, a)
    with pytest.raises(ValueError, match=r"Shapes \(11,\) and \(3,\) are not broadcastable"):
        a + zeros(3)
    with pytest.raises(ValueError, match="at least one"):
        map(k.sin, 1.0)
    with pytest.raises(TypeError, match="function of the kernel language"):
        map(3, a)


def test_one_kernel_serves_all_shapes_and_strides():
    a = array(NUMBERS)
    a * 2.0
    made = _kernel.cache_info().misses
    for other in (a[::2], array(np.ones(100, np.float32)), array(np.ones(5), dtype=k.float64)):
        other * 3.0
    assert _kernel.cache_info().misses == made


def test_several_python_threads_map():
    a = array(NUMBERS)

    def run(number):
        return map(lambda x: x * float(3) + OFFSET, a).list() + (a + float(number)).list()

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(run, range(40)))
    assert [row[11] - row[0] for row in found] == [found[0][11] - found[0][0] + n for n in range(40)]
