"""Boxes that boxes, rays, spheres and capsules touch, against brute force in float64: each once, none left out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from tests.geom.mesh_oracle import ray_hits

AABB, RAY, SPHERE, CAPSULE = range(4)


@engine.kernel
def touch(bvh: engine.uint64, kind: engine.array(dtype=int), a: engine.array(dtype=engine.vec3),
          b: engine.array(dtype=engine.vec3), radius: engine.array(dtype=float), reach: engine.array(dtype=float),
          seen: engine.array2d(dtype=int)):  # fmt: skip
    i = engine.tid()
    query = engine.bvh_query_aabb(bvh, a[i], b[i])
    if kind[i] == 1:
        query = engine.bvh_query_ray(bvh, a[i], b[i])
    elif kind[i] == 2:
        query = engine.bvh_query_sphere(bvh, a[i], radius[i])
    elif kind[i] == 3:
        query = engine.bvh_query_capsule(bvh, a[i], b[i], radius[i])
    index = -1
    while engine.bvh_query_next(query, index, reach[i]):
        seen[i, index] += 1


def touched(low, high, kind, a, b, radius, reach, device="cpu"):
    """(questions, boxes) how often each box was named."""
    n = len(kind)
    on = lambda x, dtype: engine.array(np.asarray(x), dtype=dtype, device=device)
    bvh = engine.Bvh(on(low, engine.vec3), on(high, engine.vec3))
    seen = engine.zeros((n, max(len(low), 1)), dtype=int, device=device)
    inputs = [bvh.id, on(kind, int), on(a, engine.vec3), on(b, engine.vec3), on(radius, float), on(reach, float), seen]
    engine.launch(touch, n, inputs=inputs, device=device)
    return seen.numpy()[:, : len(low)]


def gap(low, high, kind, a, b, radius, reach):
    """How far each box is from being touched, 0 or less if it is, in float64: of a ray by its passage through slabs."""
    low, high, a, b = (np.asarray(x, np.float64) for x in (low, high, a, b))
    if kind == AABB:
        return np.maximum(low - b, a - high).max(axis=1)
    if kind == SPHERE:
        return np.linalg.norm(np.maximum(np.maximum(low - a, a - high), 0.0), axis=1) - radius
    grown = radius if kind == CAPSULE else 0.0
    near, far = np.zeros(len(low)), np.full(len(low), float(reach))
    outside = np.full(len(low), -np.inf)
    for axis in range(3):
        first, second = low[:, axis] - grown - a[axis], high[:, axis] + grown - a[axis]
        if abs(b[axis]) < 1e-18:
            outside = np.maximum(outside, np.maximum(first, -second))
        else:
            t = np.sort(np.stack([first, second]) / b[axis], axis=0)
            near, far = np.maximum(near, t[0]), np.minimum(far, t[1])
    return np.maximum((near - far) * np.linalg.norm(b), outside)


def check(low, high, questions, scale, device="cpu"):
    found = touched(low, high, *questions, device=device)
    for i, (kind, a, b, radius, reach) in enumerate(zip(*questions, strict=True)):
        expected = gap(low, high, kind, a, b, radius, reach)
        clear = np.abs(expected) > 1e-5 * scale
        np.testing.assert_array_equal(found[i][clear], (expected <= 0)[clear].astype(int))
        assert found[i].max(initial=0) <= 1


def boxes_and_questions(rng, n, shape, asked=12):
    low = rng.uniform(-2, 2, (n, 3))
    high = low + rng.uniform(0, 1, (n, 3)) ** 3
    if shape == "points":
        high = low
    elif shape == "plates":
        high[:, 1] = low[:, 1] = np.round(low[:, 1])
    elif shape == "alike":
        low[:], high[:] = low[:1], high[:1]
    factor = {"far": 1.0, "huge": 1e6, "tiny": 1e-6}.get(shape, 1.0)
    move = 100.0 if shape == "far" else 0.0
    kind = rng.integers(0, 4, asked)
    a, b = rng.uniform(-2.5, 2.5, (asked, 3)), rng.normal(size=(asked, 3))
    b[rng.random((asked, 3)) < 0.25] = 0.0  # rays along axes and planes
    b[(b == 0.0).all(axis=1)] = 1.0
    b[kind == AABB] = a[kind == AABB] + rng.uniform(0, 2, ((kind == AABB).sum(), 3))
    if n:
        a[::3] = np.where(kind[::3, None] == AABB, a[::3], low[rng.integers(0, n, len(a[::3]))])  # from a corner
    radius = rng.choice([0.0, 0.2, 1.5], asked)
    reach = rng.choice([3.0e38, 0.8], asked)
    direction = (kind == RAY) | (kind == CAPSULE)
    b = np.where(direction[:, None], b, b * factor + move)
    single = lambda x: np.asarray(x, np.float32)
    reach = np.where(direction & (reach < 1e3), reach * factor, reach)
    questions = (kind, single(a * factor + move), single(b), single(radius * factor), single(reach))
    return single(low * factor + move), single(high * factor + move), questions, factor * (3 + move)


shapes = st.sampled_from(["any", "points", "plates", "alike", "far", "huge", "tiny"])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 2, 4, 5, 40, 150]), shapes)
def test_all_that_is_touched_is_found_once(seed, n, shape):
    check(*boxes_and_questions(np.random.default_rng(seed), n, shape))


def test_the_same_on_the_emulated_gpu(rng):
    for n, shape in ((0, "any"), (40, "any")):
        low, high, questions, scale = boxes_and_questions(rng, n, shape, asked=24)
        check(low, high, questions, scale, device="emu")
        here = touched(low, high, *questions)
        np.testing.assert_array_equal(touched(low, high, *questions, device="emu"), here)


def test_what_is_no_number_touches_nothing():
    low, high = np.zeros((3, 3)), np.ones((3, 3))
    low[1] = 2.0  # inverted
    high[2, 0] = np.nan
    kind = np.array([AABB, RAY, SPHERE, CAPSULE] * 3)
    a, b, radius = np.full((12, 3), 0.5), np.ones((12, 3)), np.ones(12)
    a[4:8, 1] = np.nan
    radius[8:] = np.nan
    b[8] = b[9] = np.inf
    found = touched(low, high, kind, a, b, radius, np.full(12, 10.0))
    assert found.tolist() == [[1, 0, 0]] * 4 + [[0, 0, 0]] * 8
    b[8:], radius[8:] = 1.0, -1.0
    found = touched(low, high, kind, a, b, radius, np.full(12, np.nan))
    assert found[:, 0].tolist() == [1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0] and found[:, 1:].max() == 0


@pytest.mark.parametrize("n", [0, 40])
def test_all_hits_on_the_emulated_gpu(n, rng):
    """In order, and the same bits as on the CPU."""
    v = rng.uniform(-1, 1, (3 * n, 3)).astype(np.float32)
    f = np.arange(3 * n, dtype=np.int32).reshape(-1, 3)
    o, d = rng.uniform(-2, 2, (20, 3)).astype(np.float32), rng.normal(size=(20, 3)).astype(np.float32)
    there, here = (engine.Mesh(v, f, device=device).intersect_all(o, d) for device in ("emu", "cpu"))
    for name in ("ray", "t", "face", "weights"):
        np.testing.assert_array_equal(getattr(there, name), getattr(here, name))
    assert len(there.ray) == (np.isfinite(ray_hits(v, f, o, d)).sum() if n else 0)
