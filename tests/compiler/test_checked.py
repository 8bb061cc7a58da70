"""Checked mode: what goes wrong in a kernel does no harm, and is reported with its place, in both shapes of code."""

import os
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

import engine
from engine.compiler import lang as k
from engine.errors import AssertError, BoundsError, CheckError, DivisionWarning, LaunchError, NotFiniteError

SHAPES = ("lanes", "thread")
HERE = "test_checked.py"


@pytest.fixture(params=SHAPES)
def checked(request):
    with engine.config.scope(checked=True, shape=request.param):
        yield request.param


def line_of(text):
    """The line of this file that holds a marker."""
    with open(__file__) as file:
        return next(n for n, line in enumerate(file, 1) if f"# {text}" in line)


def guarded(size):
    """An array between two others of one block: whoever writes beyond it hits them."""
    block = engine.full(3 * size, 7.0, dtype=float)
    return block, block[size : 2 * size]


def untouched(block, size):
    outside = np.delete(block.numpy(), slice(size, 2 * size))
    return bool((outside == 7.0).all())


@k.kernel
def shift(x: k.array(dtype=float), out: k.array(dtype=float), by: int):
    i = k.tid()
    out[i + by] = x[i] + 1.0  # shift


def test_a_store_outside_is_dropped_and_reported(checked):
    block, out = guarded(64)
    x = engine.array(np.arange(64), dtype=float)
    with pytest.raises(BoundsError) as caught:
        engine.launch(shift, 64, [x, out, 60])
    e = caught.value
    assert (e.kernel, e.argument, e.index, e.extent, e.dim, e.thread) == ("shift", "out", 64, 64, 0, (4,))
    assert e.lineno == line_of("shift") and e.filename.endswith(HERE) and e.failed == 60
    assert str(e) == (f"launch of 'shift': {HERE}:{e.lineno}: index 64 is outside 'out', whose extent along dimension "
                      "0 is 64 (thread 4; 60 checks failed)")  # fmt: skip
    assert untouched(block, 64) and out.numpy()[60:].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert isinstance(e, IndexError) and isinstance(e, LaunchError) and isinstance(e, engine.Error)
    with pytest.raises(BoundsError, match="index -9 is outside 'out'"):
        engine.launch(shift, 64, [x, out, -9])
    assert untouched(block, 64)
    engine.launch(shift, 64, [x, out, 0])  # what was found is forgotten


@k.kernel
def read_far(x: k.array(dtype=k.vec3), out: k.array(dtype=k.vec3), far: int):
    i = k.tid()
    out[i] = x[i * far]


def test_a_load_outside_is_zero(checked):
    x = engine.array(np.ones((20, 3)), dtype=k.vec3)
    out = engine.full(20, k.vec3(5.0, 5.0, 5.0), dtype=k.vec3)
    with pytest.raises(BoundsError, match=r"index 1000000000 is outside 'x'.*\(thread 1; 19 checks failed\)"):
        engine.launch(read_far, 20, [x, out, 1_000_000_000])
    assert out.numpy()[:3].tolist() == [[1.0] * 3, [0.0] * 3, [0.0] * 3]


@k.kernel
def count_up(out: k.array(dtype=int), old: k.array(dtype=int), by: int):
    i = k.tid()
    old[i] = k.atomic_add(out, i + by, 1)


def test_an_atomic_outside_does_nothing(checked):
    out, old = engine.full(8, 3, dtype=int), engine.full(8, 9, dtype=int)
    with pytest.raises(BoundsError, match="index 4 is outside 'out'"):
        engine.launch(count_up, 8, [out[:4], old, 4])
    assert out.numpy().tolist() == [3] * 8 and old.numpy().tolist() == [0] * 8


@k.kernel
def grid(x: k.array(dtype=float, ndim=3), a: int, b: int, c: int):
    i, j = k.tid()
    x[i + a, j + b, c] = 1.0


@pytest.mark.parametrize(("by", "dim", "index"), [((1, 0, 0), 0, 3), ((0, 1, 0), 1, 4), ((0, 0, 5), 2, 5),
                                                  ((0, 0, -1), 2, -1)])  # fmt: skip
def test_every_dimension_is_checked(checked, by, dim, index):
    """Also where the flat position would still lie within the array."""
    x = engine.zeros((3, 4, 5), dtype=float)
    with pytest.raises(BoundsError) as caught:
        engine.launch(grid, (3, 4), [x, *by])
    e = caught.value
    assert (e.dim, e.index, e.extent) == (dim, index, (3, 4, 5)[dim])
    first = {(1, 0, 0): (2, 0), (0, 1, 0): (0, 3)}.get(by, (0, 0))
    assert e.thread == first


@k.kernel
def through_views(x: k.array(dtype=float, ndim=2), out: k.array(dtype=float), row: int, at: int):
    i = k.tid()
    line = x[row]
    part = line[1:3]
    column = x[:, at]
    out[i] = part[at] + column[0]


@pytest.mark.parametrize(("row", "at", "name"), [(5, 0, "x"), (-1, 0, "x"), (0, 2, r"x\[…\]\[…\]"), (0, 4, "x")])
def test_views_are_checked_where_they_are_made_and_used(checked, row, at, name):
    x, out = engine.full((5, 4), 2.0, dtype=float), engine.full(16, -1.0, dtype=float)
    with pytest.raises(BoundsError, match=f"is outside '{name}'"):
        engine.launch(through_views, 16, [x, out, row, at])
    engine.launch(through_views, 16, [x, out, 4, 1])
    assert out.numpy().tolist() == [4.0] * 16


def test_a_view_that_failed_has_no_elements(checked):
    x, out = engine.zeros((0, 4), dtype=float), engine.full(16, -1.0, dtype=float)
    with pytest.raises(BoundsError) as caught:
        engine.launch(through_views, 16, [x, out, 0, 0])
    assert caught.value.extent == 0 and out.numpy().tolist() == [0.0] * 16


@k.kernel
def inner(out: k.array(dtype=float), i: int, j: int, which: int):
    t = k.tid()
    buffer = k.zeros(shape=(2, 3), dtype=float)
    v = k.vec3(1.0, 2.0, 3.0)
    m = k.mat22(1.0, 2.0, 3.0, 4.0)
    if which == 0:
        buffer[i, j] = 1.0
    elif which == 1:
        out[t] = buffer[i, j]
    elif which == 2:
        out[t] = v[i]
    elif which == 3:
        out[t] = m[i, j]
    elif which == 4:
        m[i, j] = 9.0
        out[t] = m[0, 0]


@pytest.mark.parametrize(("which", "bad", "dim", "extent"), [
    (0, (0, 3), 1, 3), (0, (-1, 0), 0, 2), (1, (2, 0), 0, 2), (1, (0, 3), 1, 3), (2, (3, 0), 0, 3), (3, (0, 2), 1, 2),
    (4, (2, 0), 0, 2),
])  # fmt: skip
def test_local_arrays_and_components_are_checked(checked, which, bad, dim, extent):
    out = engine.zeros(16, dtype=float)
    engine.launch(inner, 16, [out, 0, 1, which])
    with pytest.raises(BoundsError) as caught:
        engine.launch(inner, 16, [out, *bad, which])
    assert (caught.value.dim, caught.value.extent, caught.value.index) == (dim, extent, bad[dim])


@k.struct
class Cell:
    n: int
    weights: k.array(dtype=float)
    at: k.vec3


@k.kernel
def cells(c: k.array(dtype=Cell), one: Cell, out: k.array(dtype=float), i: int, j: int):
    t = k.tid()
    out[t] = c[i].weights[j] + one.weights[j]


@pytest.mark.parametrize(("i", "j", "name"), [(2, 0, "c"), (0, 3, r"c\[…\]\.weights"), (1, 3, r"one\.weights")])
def test_arrays_in_structs_are_checked(checked, i, j, name):
    short, long = engine.ones(3, dtype=float), engine.ones(4, dtype=float)
    a, b = Cell(), Cell()
    a.weights, b.weights = short, long
    c, out = engine.array([a, b], dtype=Cell), engine.zeros(16, dtype=float)
    engine.launch(cells, 16, [c, a, out, 1, 2])
    assert out.numpy().tolist() == [2.0] * 16
    with pytest.raises(BoundsError, match=f"is outside '{name}'"):
        engine.launch(cells, 16, [c, a, out, i, j])


@engine.table
class Rows:
    at: k.vec3
    mass: float


@k.kernel
def weigh(rows: Rows, by: int):
    i = k.tid()
    rows.mass[i] = 1.0
    rows.at[i + by] = k.vec3(1.0, 2.0, 3.0)


def test_fields_of_tables_are_checked(checked):
    rows = Rows(20)
    with pytest.raises(BoundsError, match=r"index 20 is outside 'rows.at', whose extent along dimension 0 is 20"):
        engine.launch(weigh, 20, [rows, 19])
    assert rows.at.numpy()[19].tolist() == [1.0, 2.0, 3.0] and not rows.at.numpy()[:19].any()


@k.kernel
def through_lists(x: engine.indexedarray(dtype=float), out: k.array(dtype=float), by: int):
    i = k.tid()
    out[i] = x[i + by]


def test_indexed_arrays_are_checked(checked):
    x = engine.array(np.arange(10), dtype=float)
    picked = engine.indexedarray(x, [engine.array([9, 1, 4], dtype=int)])
    out = engine.zeros(3, dtype=float)
    engine.launch(through_lists, 3, [picked, out, 0])
    assert out.numpy().tolist() == [9.0, 1.0, 4.0]
    with pytest.raises(BoundsError, match=r"index 3 is outside 'x', whose extent along dimension 0 is 3"):
        engine.launch(through_lists, 3, [picked, out, 1])
    assert out.numpy().tolist() == [1.0, 4.0, 0.0]
    picked.indices[0].fill_(10)  # the lists themselves may be written into
    with pytest.raises(IndexError, match="index 10 is out of bounds for axis 0 with size 10"):
        engine.launch(through_lists, 3, [picked, out, 0])


@k.kernel
def wide_index(x: k.array(dtype=float), i: k.int64, u: k.uint32, w: k.uint64):
    x[k.tid()] = x[i] + x[u] + x[w]


WIDE = [(2**32, 0, 0), (-(2**63), 0, 0), (0, 2**32 - 1, 0), (0, 0, 2**64 - 1), (0, 0, 2**63)]


@pytest.mark.parametrize("given", WIDE)
def test_indices_count_before_they_are_narrowed(checked, given):
    with pytest.raises(BoundsError, match=f"index {sum(given)} is outside 'x'"):
        engine.launch(wide_index, 16, [engine.zeros(16, dtype=float), *given])


@k.kernel
def in_a_loop(x: k.array(dtype=float), ends: k.array(dtype=int), out: k.array(dtype=float)):
    i = k.tid()
    s = 0.0
    for j in range(i, ends[i]):
        if x[j] > 100.0:
            break
        s += x[j]
    out[i] = s


def test_the_lowest_thread_wins_on_any_number_of_workers(checked):
    n = 5000
    ends = np.arange(n) + 3
    ends[[4321, 777, 4999]] = [n + 5, n + 1, n + 2]
    ends[n - 2 :] = n
    ends[4321] = n + 5
    x, out = engine.ones(n, dtype=float), engine.zeros(n, dtype=float)
    seen = set()
    for threads in (1, 2, 3):
        with engine.config.scope(threads=threads), pytest.raises(BoundsError) as caught:
            engine.launch(in_a_loop, n, [x, engine.array(ends, dtype=int), out])
        seen.add(str(caught.value))
    (message,) = seen
    assert f"index {n} is outside 'x'" in message and "(thread 777; " in message
    assert out.numpy()[:5].tolist() == [3.0] * 5


@k.kernel
def divide(a: k.array(dtype=int), b: k.array(dtype=int), out: k.array(dtype=int)):
    i = k.tid()
    out[i] = a[i] // b[i]  # divide


def test_divisions_by_zero_are_zero_and_counted(checked):
    a, b = engine.full(32, 7, dtype=int), engine.array([2, 0] * 16, dtype=int)
    out = engine.full(32, -1, dtype=int)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        engine.launch(divide, 32, [a, b, out])
    (one,) = seen
    assert one.category is DivisionWarning and one.filename.endswith(HERE) and one.lineno == line_of("divide")
    assert str(one.message) == "launch of 'divide': an integer divided by zero gave 0, 16 times, first in thread 1"
    assert out.numpy().tolist() == [3, 0] * 16
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        engine.launch(divide, 32, [a, a, out])
        with pytest.raises(DivisionWarning):
            engine.launch(divide, 1, [a, b[1:], out])


@k.func
def positive(x: float):
    assert x > 0.0, "only positive numbers"  # positive
    return k.sqrt(x)


@k.kernel
def roots(x: k.array(dtype=float), out: k.array(dtype=float)):
    i = k.tid()
    out[i] = positive(x[i])


@pytest.mark.parametrize("how", [{"checked": True}, {"mode": "debug"}])
@pytest.mark.parametrize("shape", ("auto", *SHAPES))
def test_asserts_raise(how, shape):
    x, out = engine.array(np.array([1.0] * 30 + [-1.0] * 10), dtype=float), engine.full(40, 5.0, dtype=float)
    engine.launch(roots, 40, [x, out])
    assert np.isnan(out.numpy()[30:]).all()  # asserts are off
    with engine.config.scope(shape=shape, **how):
        with pytest.raises(AssertError) as caught:
            engine.launch(roots, 40, [x, out])
        e = caught.value
        assert isinstance(e, AssertionError) and e.thread == (30,) and e.failed == 10
        assert str(e) == (f"launch of 'roots': {HERE}:{line_of('positive')}: Assertion failed: positive: "
                          "assert x > 0.0, only positive numbers (thread 30; 10 checks failed)")  # fmt: skip
        engine.launch(roots, 30, [x, out])


@k.kernel
def scaled(x: k.array(dtype=k.vec3), s: float):
    i = k.tid()
    x[i] = x[i] * s


@pytest.mark.parametrize("shape", SHAPES)
def test_verify_fp_finds_what_is_not_finite(shape):
    values = np.ones((20, 3), np.float32)
    values[7, 1] = 1e30
    with engine.config.scope(verify_fp=True, shape=shape):
        x = engine.array(values, dtype=k.vec3)
        engine.launch(scaled, 20, [x, 2.0])
        with pytest.raises(NotFiniteError, match=r"inf is stored in 'x\[7\]' \(thread 7\)"):
            engine.launch(scaled, 20, [x, 1e30])
        with pytest.raises(NotFiniteError, match=r"nan is stored in 'x\[0\]' \(thread 0; 60 checks failed\)"):
            engine.launch(scaled, 20, [x, float("nan")])
    assert np.isnan(x.numpy()).all()  # it is stored all the same


def test_recorded_launches_and_counted_grids_are_checked(checked):
    x, out = engine.ones(64, dtype=float), engine.zeros(64, dtype=float)
    recorded = engine.launch(shift, 64, [x, out, 1], record_cmd=True)
    for _ in range(5):
        with pytest.raises(BoundsError, match=r"thread 63\)"):
            recorded.launch()
    recorded.set_param("by", 0)
    recorded.launch()
    count = engine.array([10], dtype=int)
    engine.launch(shift, engine.indirect(count, 64), [x, out, 54])
    with pytest.raises(BoundsError, match=r"thread 9\)"):
        engine.launch(shift, engine.indirect(count, 64), [x, out, 55])


@k.kernel
def squares(x: k.array(dtype=float), y: k.array(dtype=float), by: int):
    i = k.tid()
    for _ in range(2):
        y[i] = y[i] + x[i + by] * x[i + by]


def test_gradients_of_checked_kernels(checked):
    x = engine.array(np.array([1.0, 2.0, 3.0]), dtype=float, requires_grad=True)
    y = engine.zeros(3, dtype=float, requires_grad=True)
    with engine.Tape() as tape:
        engine.launch(squares, 3, [x, y, 0])
    tape.backward(grads={y: engine.ones(3, dtype=float)})
    assert x.grad.numpy().tolist() == [4.0, 8.0, 12.0]
    with pytest.raises(BoundsError, match=r"index 3 is outside 'x'"), engine.Tape():
        engine.launch(squares, 3, [x, y, 1])


def test_checked_kernels_come_from_the_cache(tmp_path):
    """A later process finds the same place and says the same."""
    (tmp_path / "program.py").write_text(
        "import engine\n"
        "@engine.kernel\n"
        "def far(x: engine.array(dtype=float)):\n"
        "    x[engine.tid() + 5] = 1.0\n"
        "try:\n"
        "    engine.launch(far, 8, [engine.zeros(8, dtype=float)])\n"
        "except engine.LaunchError as error:\n"
        "    print(next(iter(far.instances.values())).from_cache, error)\n"
    )  # fmt: skip
    environment = {**os.environ, "ENGINE_CHECKED": "1", "ENGINE_CACHE_DIR": str(tmp_path / "cache")}
    said = [
        subprocess.run([sys.executable, str(tmp_path / "program.py")], env=environment, capture_output=True, text=True,
                       check=True).stdout
        for _ in range(2)
    ]  # fmt: skip
    message = "launch of 'far': program.py:4: index 8 is outside 'x', whose extent along dimension 0 is 8 (thread 3; "
    assert said == [f"{cached} {message}5 checks failed)\n" for cached in (False, True)]


def test_no_checks_no_cost():
    with engine.config.scope(checked=False):
        engine.launch(shift, 64, [engine.ones(64, dtype=float), engine.zeros(64, dtype=float), 0])
        assert "fault" not in shift.stages["llvm"] and "fault" not in shift.stages["mir"]


def test_check_errors_cross_processes():
    e = BoundsError("k", "index 4 is outside 'x'", argument="x", index=4, extent=3, thread=(1, 2), failed=2, lineno=3)
    other = pickle.loads(pickle.dumps(e))
    assert str(other) == str(e) and other.thread == (1, 2) and isinstance(other, CheckError)


@k.kernel
def from_the_end(x: k.array(dtype=float, ndim=2), out: k.array(dtype=float), i: int):
    t = k.tid()
    buffer = k.zeros(shape=(2, 3), dtype=float)
    buffer[-1, -2] = 5.0
    v = k.vec3(1.0, 2.0, 3.0)
    m = k.matrix(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, shape=(2, 3))
    x[-1, -t - 1 + 3] = 7.0
    out[0] = x[-1, -2]
    out[-9] = x[-2][-1]
    out[2] = x[i, 0:2][1]
    out[3] = buffer[1, 1]
    out[4] = v[i]
    out[5] = m[i, i]
    v[i] = 9.0
    out[6] = v[1]
    m[i, 1] = 8.0
    out[7] = m[0, 1]
    k.atomic_add(out, -2, 3.0)
    out[9] = m[i][i]


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_negative_indices_count_from_the_end(shape, checked):
    """Where they are known while compiling, beside slices, and in vectors and matrices."""
    with engine.config.scope(checked=checked, shape=shape):
        x = engine.array(np.arange(12).reshape(4, 3), dtype=float)
        out = engine.zeros(10, dtype=float)
        engine.launch(from_the_end, 1, [x, out, -2])
    assert out.numpy().tolist() == [10.0, 8.0, 7.0, 5.0, 2.0, 2.0, 9.0, 8.0, 3.0, 8.0]
    assert x.numpy()[-1].tolist() == [9.0, 10.0, 7.0]


def test_negative_components_are_checked_too(checked):
    out = engine.zeros(16, dtype=float)
    engine.launch(inner, 16, [out, -3, 0, 2])
    with pytest.raises(BoundsError) as caught:
        engine.launch(inner, 16, [out, -4, 0, 2])
    assert (caught.value.index, caught.value.extent) == (-4, 3)


@k.kernel
def sliced_by(x: k.array(dtype=float), out: k.array(dtype=int), step: int):
    out[k.tid()] = len(x[0:5:step])  # sliced


@k.kernel
def sought(x: k.array(dtype=float), out: k.array(dtype=int), end: int):
    out[k.tid()] = k.lower_bound(x, 0, end, 100.0)  # sought


def test_checks_inside_the_library_name_the_users_line(checked):
    x, out = engine.zeros(8, dtype=float), engine.zeros(16, dtype=int)
    with pytest.raises(AssertError, match="a slice has a step of zero") as caught:
        engine.launch(sliced_by, 16, [x, out, 0])
    assert caught.value.lineno == line_of("sliced") and caught.value.filename.endswith(HERE)
    assert not out.numpy().any()
    with pytest.raises(BoundsError) as caught:
        engine.launch(sought, 16, [x, out, 100])
    assert caught.value.lineno == line_of("sought") and caught.value.filename.endswith(HERE)
