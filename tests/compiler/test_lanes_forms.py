"""Every memory form, loop form and grid of the lanes shape against the thread shape, to the bit, for all widths."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine.compiler import lang as k
from engine.config import config

SIZES = (1, 3, 8, 16, 67)
WIDTHS = (4, 8, 16)


@k.struct
class Mixed:
    a: k.vec3
    b: k.int32
    c: k.float64
    d: bool


@k.struct
class Row:
    v: k.vec3
    w: k.vec3
    m: float
    n: int


@k.kernel
def elements(
    x2: k.array(dtype=k.vec2),
    x3: k.array(dtype=k.vec3d),
    x4: k.array(dtype=k.vec4),
    b: k.array(dtype=k.int8),
    t: k.array(dtype=bool),
    planes: k.array(dtype=k.vec3, layout="planes"),
    limit: int,
):
    """Neighbouring elements of all widths, with all lanes and under a mask."""
    i = k.tid()
    x2[i] = x2[i] + x2[i]
    x3[i] = x3[i] * k.float64(2.0)
    x4[i] = x4[i] * x4[i].w
    b[i] = b[i] + k.int8(3)
    t[i] = not t[i]
    if i % 3 != 0 and i < limit:
        v = k.cross(planes[i], k.vec3(x2[i].x, x2[i].y, 1.0))
        x2[i] = k.vec2(v.x, v.z)
        x3[i] = k.vec3d(k.float64(v.x), k.float64(v.y), k.float64(b[i]))
        x4[i] = k.vec4(v.x, v.y, v.z, 2.0)
        b[i] = k.int8(i)
        t[i] = v.x > 0.0
        planes[i] = v


@k.kernel
def far(
    rows: k.array(dtype=Row, layout="rows"),
    mixed: k.array(dtype=Mixed),
    order: k.array(dtype=int),
    some: k.array(dtype=int),
    out: k.array(dtype=Mixed),
):
    """Elements of several leaves at an index of the thread's own, read and written."""
    i = k.tid()
    j = order[i]
    r = rows[j]
    if some[i] > 0:
        r.v = r.v + k.cross(r.w, r.v) * r.m
        r.n = r.n + i
        rows[j].v = r.v
        rows[j].n = r.n
    m = mixed[j]
    m.a = m.a + r.v
    m.c = m.c + k.float64(r.m)
    if some[i] != 1:
        m.d = not m.d
    out[j] = m


@k.kernel
def ranges(start: k.array(dtype=int), end: k.array(dtype=int), x: k.array(dtype=float), out: k.array(dtype=float)):
    """Loops that lanes enter and leave at their own times, aligned where they overlap."""
    i = k.tid()
    s = 0.0
    last = -1
    for j in range(start[i], end[i]):
        if x[j] > 2.5:
            continue
        if x[j] < -2.5:
            break
        s += x[j] * float(i + 1)
        last = j
    for j in range(end[i], start[i], -2):
        s = s * 0.5 + x[j - 1]
    n = end[i]
    while n > 0:
        n = n / 2
        if n == 3:
            break
        s += float(n)
    out[i] = s + float(last)


@k.kernel
def private(index: k.array(dtype=int), out: k.array(dtype=float)):
    """Local arrays at uniform and at own indices, whole-number division with lanes that do not divide."""
    i = k.tid()
    a = k.zeros(shape=6, dtype=float)
    for j in range(6):
        a[j] = float(i * j)
    if index[i] > 2:
        a[index[i]] = a[index[i]] + 10.0
        a[3] = float(100 / (index[i] - 3))
    s = 0.0
    for j in range(6):
        s = s * 2.0 + a[j]
    out[i] = s + a[index[i]]


@k.kernel
def counted(key: k.array(dtype=int), count: k.array(dtype=int), old: k.array(dtype=int), most: k.array(dtype=float)):
    i = k.tid()
    k.atomic_add(count, 7, key[i])
    k.atomic_max(count, 6, key[i])
    if key[i] != 2:
        k.atomic_add(count, key[i], 1)
        k.atomic_max(most, 0, float(key[i]))
    old[i] = key[i]


@k.kernel
def grid(out: k.array(dtype=int, ndim=3), x: k.array(dtype=float, ndim=2)):
    a, b, c = k.tid()
    out[a, b, c] = a * 10000 + b * 100 + c
    if b == 1:
        x[a, c] = x[a, c] * 2.0 + float(c)


def data(n: int) -> dict:
    rng = np.random.default_rng(n)
    start = rng.integers(0, 20, n).astype(np.int32)
    return {
        "normal": lambda *shape: rng.standard_normal(shape),
        "start": start,
        "end": (start + rng.integers(-2, 12, n)).clip(0, 40).astype(np.int32),
        "order": rng.permutation(n).astype(np.int32),
        "some": rng.integers(0, 3, n).astype(np.int32),
        "key": rng.integers(0, 6, n).astype(np.int32),
    }


def arguments(kernel, n: int) -> tuple[object, list]:
    """(dim, fresh arguments)."""
    d = data(n)
    normal = d["normal"]

    def array(values, dtype, **more):
        return engine.array(values, dtype=dtype, device="cpu", **more)

    if kernel is elements:
        return n, [
            array(normal(n, 2).astype(np.float32), k.vec2), array(normal(n, 3), k.vec3d),
            array(normal(n, 4).astype(np.float32), k.vec4), array(np.arange(n).astype(np.int8), k.int8),
            array(np.arange(n) % 2 == 0, bool), array(normal(n, 3).astype(np.float32), k.vec3, layout="planes"),
            n - 2,
        ]  # fmt: skip
    if kernel is far:
        rows = engine.zeros(n, dtype=Row, layout="rows", device="cpu")
        rows.numpy()["v"], rows.numpy()["w"], rows.numpy()["m"] = normal(n, 3), normal(n, 3), normal(n)
        mixed, out = engine.zeros(n, dtype=Mixed, device="cpu"), engine.zeros(n, dtype=Mixed, device="cpu")
        mixed.numpy()["a"], mixed.numpy()["c"] = normal(n, 3), normal(n)
        return n, [rows, mixed, array(d["order"], int), array(d["some"], int), out]
    if kernel is ranges:
        x = normal(41).astype(np.float32) * 1.5
        return n, [array(d["start"], int), array(d["end"], int), array(x, float), array(np.zeros(n, "f4"), float)]
    if kernel is private:
        return n, [array(d["key"], int), array(np.zeros(n, np.float32), float)]
    if kernel is counted:
        zeros = array(np.zeros(8, np.int32), int), array(np.zeros(n, np.int32), int)
        return n, [array(d["key"], int), *zeros, array(np.zeros(1, np.float32), float)]
    shape = (2, 3, n)
    return shape, [array(np.zeros(shape, np.int32), int), array(normal(2, n).astype(np.float32), float)]


def outcome(kernel, n: int) -> list[bytes]:
    dim, args = arguments(kernel, n)
    engine.launch(kernel, dim, args, device="cpu")
    return [a.numpy().tobytes() for a in args if hasattr(a, "numpy")]


@pytest.mark.parametrize("kernel", [elements, far, ranges, private, counted, grid], ids=lambda kernel: kernel.name)
def test_equal_bits(kernel):
    with config.scope(shape="thread"):
        want = {n: outcome(kernel, n) for n in SIZES}
    for width in WIDTHS:
        with config.scope(shape="lanes", lanes=width):
            for n in SIZES:
                assert outcome(kernel, n) == want[n], (width, n)
            assert kernel.stages.decision.width == width


def test_arrays_with_gaps_run_as_threads():
    x = np.arange(80, dtype=np.float32)
    whole = engine.array(x, dtype=float, device="cpu")
    out = engine.zeros(40, dtype=float, device="cpu")

    with config.scope(shape="lanes"):
        engine.launch(doubled, 40, [whole[::2], out], device="cpu")
        engine.launch(doubled, 40, [out, whole[1::2]], device="cpu")
    assert out.numpy().tolist() == (x[::2] * 2).tolist()
    assert whole.numpy()[1::2].tolist() == (x[::2] * 4).tolist() and whole.numpy()[::2].tolist() == x[::2].tolist()


@k.kernel
def doubled(x: k.array(dtype=float), y: k.array(dtype=float)):
    i = k.tid()
    y[i] = x[i] * 2.0


@k.kernel(shape="lanes")
def as_lanes(x: k.array(dtype=float)):
    x[k.tid()] = 1.0


@k.kernel(shape="thread")
def as_thread(x: k.array(dtype=float)):
    x[k.tid()] = 1.0


@k.kernel
def chased(next_of: k.array(dtype=int), out: k.array(dtype=int)):
    i = k.tid()
    at = i
    steps = 0
    while next_of[at] != at:
        at = next_of[at]
        steps += 1
    out[i] = steps


def test_the_user_and_the_cost_model_choose():
    with config.scope(shape="auto", lanes=8):
        assert [kernel.stages.decision.shape for kernel in (as_lanes, as_thread)] == ["lanes", "thread"]
        assert doubled.stages.decision.shape == "lanes" and chased.stages.decision.shape == "thread"
    report = engine.debug.explain(chased, stages=())
    assert "shape thread" in report and "lane by lane" in report
    with pytest.raises(ValueError, match="'auto', 'lanes', 'thread'"):
        k.kernel(shape="warp")


@k.kernel(shape="lanes", lanes=4)
def of_fours(x: k.array(dtype=float, ndim=2), out: k.array(dtype=float, ndim=2)):
    i, j = k.tid()
    out[i, j] = x[i, j] * x[i, 0] + x[0, j]


@pytest.mark.parametrize("row", [1, 3, 4, 5, 8, 11])
def test_most_lanes_and_short_rows(row):
    x = np.random.default_rng(row).normal(size=(9, row)).astype(np.float32)
    found = []
    for lanes in (0, 4, 8):
        out = engine.full((9, row), np.nan, dtype=float, device="cpu")
        with config.scope(lanes=lanes):
            engine.launch(of_fours, (9, row), [engine.array(x, dtype=float, device="cpu"), out], device="cpu")
            assert of_fours.stages.decision.width == (lanes or 4)
        found.append(out.numpy().tobytes())
    assert len(set(found)) == 1
    expected = x * x[:, :1] + x[0]
    np.testing.assert_allclose(np.frombuffer(found[0], np.float32), expected.ravel(), rtol=1e-5, atol=1e-6)


@given(seed=st.integers(0, 2**32 - 1), reach=st.integers(0, 40), spread=st.sampled_from([0, 3, 30, 200]))
@settings(max_examples=25, deadline=None)
def test_ranges_of_all_kinds(seed, reach, spread):
    """Ranges of neighbours that agree, overlap, touch, lie apart, are empty or backwards; lanes that leave early."""
    rng = np.random.default_rng(seed)
    n, length = 67, 256
    start = rng.integers(0, length - 45) + rng.integers(0, spread + 1, n)
    start = np.clip(start, 0, length - 45).astype(np.int32)
    end = np.where(rng.random(n) < 0.1, start - 2, start + rng.integers(0, reach + 1, n)).clip(0).astype(np.int32)
    x = rng.normal(size=length).astype(np.float32) * (3.0 if seed % 2 else 1.0)
    arrays = [engine.array(v, dtype=t, device="cpu") for v, t in ((start, int), (end, int), (x, float))]
    results = []
    for shape, lanes in (("thread", 0), ("lanes", 4), ("lanes", 8), ("lanes", 16)):
        with config.scope(shape=shape, lanes=lanes):
            out = engine.full(n, -1.0, dtype=float, device="cpu")
            engine.launch(ranges, n, [*arrays, out], device="cpu")
            results.append(out.numpy().tobytes())
    assert len(set(results)) == 1
