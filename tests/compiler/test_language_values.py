"""The parts of the language that are about places and values: slices, references, local arrays, tuples, printing."""

# ruff: noqa: UP018  (int(0) and float(0.0) make variables of kernels)

from __future__ import annotations

import numpy as np
import pytest

import engine
from engine import context
from engine.compiler import lang as k
from engine.compiler import types
from engine.errors import CompileError


def run(kernel, *args, dim=1):
    arrays = [context.array(a) if isinstance(a, np.ndarray) else a for a in args]
    context.launch(kernel, dim, arrays)
    return [a.numpy() for a in arrays if isinstance(a, context.array)]


@k.kernel
def slice_array(a: k.array(dtype=k.float32, ndim=2), out: k.array(dtype=k.float32), n: int):
    row = a[1, 1:n]
    column = a[:, 2]
    back = a[0, ::-1]
    out[0], out[1] = row[0], float(len(row))
    out[2] = column[1]
    out[3], out[4] = back[0], back[3]
    inner = a[-2:, n - 3 : 3]
    inner[0, 0] = 77.0
    empty = a[2:1]
    out[5] = float(empty.shape[0])


def test_slices_of_arrays_are_views():
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    data, out = run(slice_array, a, np.full(6, np.nan, np.float32), 3)
    assert out.tolist() == [5.0, 2.0, 6.0, 3.0, 0.0, 0.0]
    assert data[1, 0] == 77.0


@k.kernel
def slice_values(out: k.array(dtype=k.float32)):
    v = k.vec4(1.0, 2.0, 3.0, 4.0)
    v[0:2] = k.vec2(8.0, 9.0)
    v[2:] = 5.0
    m = k.mat33(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)
    part = m[0:2, 1:3]
    m[:, 0] = k.vec3(0.0, 0.0, 1.0)
    out[0], out[1], out[2], out[3] = v[1], v[3], part[1, 1], m[2, 0]
    for row in range(out.shape[0] - 5):  # a row number that is known at run time only
        out[4] = m[row + 1, 1:][1]


def test_slices_of_vectors_and_matrices_are_values_and_places():
    (out,) = run(slice_values, np.full(6, np.nan, np.float32))
    assert out[:5].tolist() == [9.0, 5.0, 6.0, 1.0, 6.0]


@k.func
def bump(x: k.ref[k.int32], by: int):
    x += by


@k.func
def limit(x: k.ref[k.float32]) -> float:
    if x > 3.0:
        x = 0.0
        return 1.0
    x = x * 2.0
    return 0.5


@k.kernel
def refer(a: k.array(dtype=int), out: k.array(dtype=k.float32)):
    n = int(0)
    for i in range(40):
        bump(n, i)
    a[0] = n
    bump(a[1], 5)
    f = float(2.0)
    out[0] = limit(f)
    out[1] = f
    out[2] = limit(f)
    out[3] = f
    v = k.vec3(1.0)
    limit(v[1])
    out[4] = v[1]
    once = 7
    bump(once, 1)
    out[5] = float(once)


def test_references_reach_variables_elements_and_parts():
    a, out = run(refer, np.zeros(2, np.int32), np.full(6, np.nan, np.float32))
    assert a.tolist() == [780, 5]
    assert out.tolist() == [0.5, 4.0, 1.0, 0.0, 2.0, 8.0]


@k.kernel
def loop_else(n: int, out: k.array(dtype=int)):
    for i in range(n):
        if i == 3:
            break
    else:
        out[0] = 1
    for _ in range(2):
        out[1] += 1
    else:
        out[1] += 10
    j = int(0)
    while j < n:
        j += 1
        if j == 100:
            break
    else:
        out[2] = 1
    for i in reversed(range(1, n, 2)):
        out[3] = i


@pytest.mark.parametrize(("n", "expected"), [(2, [1, 12, 1, 1]), (10, [0, 12, 1, 1]), (100, [0, 12, 0, 1])])
def test_else_runs_unless_the_loop_was_left_by_break(n, expected):
    (out,) = run(loop_else, n, np.zeros(4, np.int32))
    assert out.tolist() == expected


@k.func
def fill(a: k.array(dtype=int, ndim=2)):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            a[i][j] = i * a.shape[1] + j


@k.func
def made():
    a = k.zeros(shape=3, dtype=k.vec3)
    for i in range(3):
        a[i] = k.vec3(float(i))
    return a


@k.func
def total(v: k.array(dtype=k.vec3)) -> float:
    s = float(0.0)
    for i in range(len(v)):
        s += v[i][0]
    return s


@k.kernel
def local_arrays(out: k.array(dtype=int), f: k.array(dtype=k.float32)):
    a = k.zeros(shape=(2, 3), dtype=int)
    fill(a)
    out[0] = a[1][2]
    s = a[:2, 1:]
    out[1] = s[1, 1]
    a[1, 2] = 50
    out[2] = s[1, 1]
    s[0, 0] = 9
    out[3] = a[0, 1]
    f[0] = total(made())


def test_local_arrays_are_passed_sliced_and_returned():
    out, f = run(local_arrays, np.zeros(4, np.int32), np.zeros(1, np.float32))
    assert out.tolist() == [5, 5, 50, 9] and f.tolist() == [3.0]


@k.kernel
def missing(a: k.array(dtype=k.float32), out: k.array(dtype=k.float32)):
    out[0] = a[0] if a else -1.0
    if not a:
        out[1] = 2.0


def test_none_is_an_array_parameter_that_the_kernel_asks_for():
    out = context.zeros(2)
    context.launch(missing, 1, [None, out])
    assert out.numpy().tolist() == [-1.0, 2.0]
    context.launch(missing, 1, [context.ones(1), out])
    assert out.numpy().tolist() == [1.0, 2.0]


@k.func
def scaled(x: int) -> int:
    return 2 * x


@k.func
def scaled(x: float) -> float:  # noqa: F811
    return 3.0 * x


@k.kernel
def overloads(out: k.array(dtype=k.float32)):
    out[0] = scaled(1.5)
    out[1] = float(scaled(2))


def test_functions_of_one_name_are_overloads():
    (out,) = run(overloads, np.zeros(2, np.float32))
    assert out.tolist() == [4.5, 4.0]
    assert scaled(2) == 4 and scaled(1.5) == 4.5


@k.kernel
def no_overload(v: k.array(dtype=k.vec3)):
    v[0] = scaled(v[0])


def test_a_call_that_no_overload_takes_names_the_types():
    with pytest.raises(CompileError, match=r"no overload of scaled\(\) takes \(vec3\)"):
        no_overload.lower([t for _, t in no_overload.params])


@k.kernel
def speak(a: k.array(dtype=k.float32)):
    i = k.tid()
    print("x", a[i], k.vec2(1.0, 2.0), i > 0)
    k.printf("%d of 100%%: %5.2f\n", i, a[i])


def test_print_and_printf(capfd):
    run(speak, np.array([1.5, 2.5], np.float32), dim=2)
    assert capfd.readouterr().out == "x 1.5 1 2  False\n0 of 100%:  1.50\nx 2.5 1 2  True\n1 of 100%:  2.50\n"


@k.kernel
def insist(n: int):
    assert n > 3, "too few"


def test_asserts_are_kept_in_debug_mode_and_raise():
    with engine.config.scope(checked=False):
        run(insist, 1)
    with engine.config.scope(mode="debug"):
        run(insist, 4)
        with pytest.raises(engine.errors.AssertError, match="assert n > 3, too few"):
            run(insist, 1)


@k.kernel
def anonymous(out: k.array(dtype=k.float32)):
    v = k.vector(1.0, 2.0, 3.0, 4.0, 5.0)
    z = k.vector(length=3, dtype=k.float32)
    m = k.matrix(2.0, shape=(2, 3))
    t = k.transform(k.vec3(1.0, 2.0, 3.0))
    out[0], out[1], out[2], out[3] = v[4], z[2], m[1, 2], t.q.w
    x, y = k.vec2(8.0, 9.0)
    out[4] = y
    w = k.vec3(*out[0:3])
    out[5] = w[0]


def test_constructors_take_their_type_from_their_arguments():
    (out,) = run(anonymous, np.zeros(6, np.float32))
    assert out.tolist() == [5.0, 0.0, 2.0, 1.0, 9.0, 5.0]


mat32d = engine.types.matrix((3, 2), engine.float64)


def test_constructors_may_repeat_their_size_and_nothing_else():
    @k.kernel
    def repeated(out: k.array(dtype=k.float64)):
        m = mat32d(k.float64(2.0), shape=(3, 2))
        out[0] = mat32d(m, shape=(3, 2))[2, 1] + k.vec3d(k.float64(1.0), length=3)[2]

    (out,) = run(repeated, np.zeros(1))
    assert out.tolist() == [3.0]

    @k.kernel
    def wrong(out: k.array(dtype=k.float64)):
        out[0] = mat32d(out[0], shape=(2, 3))[0, 0]

    with pytest.raises(CompileError, match=r"mat32d\(\) has shape \(3, 2\)"):
        run(wrong, np.zeros(1))


def test_map_takes_lambdas():
    a = context.array(np.array([1.0, 2.0], np.float32))
    expected = [3.0, np.sqrt(np.float32(2.0)) + np.float32(2.0)]
    assert engine.map(lambda x: k.sqrt(x) + 2.0, a).numpy().tolist() == expected


def test_explicit_casts_keep_bits_and_bfloat16_rounds():
    assert k.uint32(-1) == 0xFFFFFFFF and k.int8(200) == -56
    assert float(k.bfloat16(1.00390625)) == 1.0 and float(k.bfloat16(1.01171875)) == 1.015625


def test_native_functions_are_refused_where_they_are_used():
    @engine.func_native("return x;")
    def native(x: float): ...

    with pytest.raises(CompileError, match="'native': device code is written in the kernel language only, not in C"):
        native(1.0)


def test_addresses_of_variables_are_refused_with_the_way_out():
    @k.kernel
    def wrong(out: k.array(dtype=k.uint64)):
        out[0] = engine.address_of(out[0])

    with pytest.raises(CompileError, match=r"'address_of': variables have no address here; that of an array is a\.ptr"):
        run(wrong, np.zeros(1, np.uint64))


@k.func
def first_above(n: int) -> int:
    for v in (3, 5, 7):
        if v > n:
            return v
    return -1


@k.func
def odd_up_to(n: int) -> int:
    s = int(0)
    for i in range(40):
        if k.static(i % 2 == 0):
            continue
        if i > n:
            break
        s += i
    return s


@k.func
def others(n: int) -> int:
    s = int(0)
    for v in (3, 5, 7):
        if v == n:
            continue
        s += v
        if s > n + 9:
            break
    else:
        s += 100
    return s


@k.kernel
def jump_out(out: k.array(dtype=int, ndim=2)):
    n = k.tid()
    out[n, 0], out[n, 1], out[n, 2] = first_above(n), odd_up_to(n), others(n)


def test_loops_over_known_values_may_be_left():
    """They are taken apart, `range` where static() asks for its variable: each iteration is code of its own."""
    (out,) = run(jump_out, np.full((50, 3), -99, np.int32), dim=50)
    assert out.tolist() == [[first_above(n), odd_up_to(n), others(n)] for n in range(50)]


def test_static_does_not_take_a_long_loop_apart():
    @k.kernel
    def long(out: k.array(dtype=int)):
        for i in range(100000):
            out[0] += k.static(i)

    with pytest.raises(CompileError, match=r"static\(i\) takes this loop apart, and 100000 .* more than 1024"):
        run(long, np.zeros(1, np.int32))


@k.struct
class Halves:
    low: k.float16
    high: k.int16


@k.struct
class Packed:
    tag: k.uint8
    flag: bool
    halves: Halves
    far: k.float64


@k.kernel
def reread(out: k.array(dtype=k.uint64), v: k.array(dtype=k.vec4)):
    pair = Halves()
    pair.low, pair.high = k.float16(2.0), k.int16(123)
    out[0] = k.uint64(k.cast(pair, k.int32))
    whole = Packed()
    whole.tag, whole.flag, whole.halves, whole.far = k.uint8(7), True, pair, k.float64(1.25)
    two = k.cast(whole, k.vec2ul)
    out[1], out[2] = two[0], two[1]
    back = k.cast(two, Packed)
    if back.flag and back.tag == k.uint8(7) and back.halves.high == k.int16(123) and back.far == k.float64(1.25):
        out[3] = k.uint64(1)
    v[0] = k.cast(k.mat22(1.0, 2.0, 3.0, 4.0), k.vec4)


def test_casts_read_the_bytes_that_numpy_has():
    out, v = run(reread, np.zeros(4, np.uint64), context.zeros(1, dtype=k.vec4))
    pair = np.array([(2.0, 123)], [("low", "f2"), ("high", "i2")])
    record = np.dtype([("tag", "u1"), ("flag", "?"), ("halves", pair.dtype), ("far", "f8")], align=True)
    whole = np.zeros(1, record)
    whole[0] = (7, True, pair[0], 1.25)
    assert out[0] == pair.view(np.int32)[0]
    assert out[1:3].tolist() == whole.view(np.uint64).tolist() and out[3] == 1
    assert v.tolist() == [[1.0, 2.0, 3.0, 4.0]]

    @k.kernel
    def wrong(out: k.array(dtype=k.uint64)):
        out[0] = k.cast(k.vec3(), k.uint64)

    with pytest.raises(CompileError, match="bits of vec3 are not those of uint64: the sizes differ, 12 and 8 bytes"):
        run(wrong, np.zeros(1, np.uint64))


in_a_loop = []
for factor in (2, 3):

    @k.kernel
    def times(out: k.array(dtype=int)):
        out[0] = k.static(factor * 10)  # noqa: B023  # what is tested

    in_a_loop.append(times)


def test_static_means_what_its_names_meant_at_the_definition():
    def made(number):
        @k.kernel
        def kernel(out: k.array(dtype=int)):
            out[0] = k.static(number + 1)

        number = -99
        return kernel

    for kernel, expected in zip([*in_a_loop, made(4), made(5)], (20, 30, 5, 6), strict=True):
        (out,) = run(kernel, np.zeros(1, np.int32))
        assert out[0] == expected


@k.func
def second_of_row(values: k.ref[k.array(dtype=float, ndim=2)], i: int):
    alias = values
    row = alias[i]
    row[0] += 1.0
    return row[1]


def test_a_reference_to_an_array_is_the_array():
    @k.kernel
    def seconds(values: k.array(dtype=float, ndim=2), out: k.array(dtype=float)):
        out[k.tid()] = second_of_row(values, k.tid())

    values = engine.array([[2.0, 3.0], [4.0, 5.0]], dtype=float, device="cpu")
    out = engine.zeros(2, dtype=float, device="cpu")
    engine.launch(seconds, 2, inputs=[values, out], device="cpu")
    assert (out.list(), values.list()) == ([3, 5], [3, 3, 5, 5])
    assert not isinstance(k.ref[engine.array2d[float]], types.Reference) and k.ref[k.vec3] == k.ref[k.vec3]


def test_overloads_that_differ_only_in_ref_are_refused():
    @k.func
    def change(x: int) -> int:
        return x

    with pytest.raises(CompileError, match=r"the overloads of 'change' differ only in ref\[…\]"):

        @k.func
        def change(x: k.ref[int]):
            x += 1
