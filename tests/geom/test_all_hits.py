"""All hits of rays in order, trimesh's questions, and derivatives of what rays and closest points find."""

import numpy as np
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine.errors import ArgumentError
from tests.geom import mesh_oracle as oracle


def random_rays(rng, n):
    return rng.uniform(-2, 2, (n, 3)).astype(np.float32), rng.normal(size=(n, 3)).astype(np.float32)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 150))
def test_all_hits_are_those_of_brute_force_in_order(seed, n):
    rng = np.random.default_rng(seed)
    v = rng.uniform(-1, 1, (3 * n, 3)).astype(np.float32)
    f = np.arange(3 * n, dtype=np.int32).reshape(-1, 3)
    mesh = engine.Mesh(v, f)
    o, d = random_rays(rng, 20)
    hits = mesh.intersect_all(o, d)
    expected = oracle.ray_hits(v, f, o, d) if n else np.full((20, 0), np.inf)
    assert len(hits.ray) == np.isfinite(expected).sum()
    assert (np.diff(hits.ray) >= 0).all()
    for i in range(20):
        mine = hits.ray == i
        assert sorted(hits.face[mine]) == np.flatnonzero(np.isfinite(expected[i])).tolist()
        assert hits.t[mine] == pytest.approx(np.sort(expected[i][np.isfinite(expected[i])]), rel=1e-4, abs=1e-5)
        assert (np.diff(hits.t[mine]) >= 0).all()
    w = hits.weights.astype(np.float64)
    corners = v[f[hits.face]].astype(np.float64) if n else np.zeros((0, 3, 3))
    place = corners[:, 0] * w[:, :1] + corners[:, 1] * w[:, 1:] + corners[:, 2] * (1 - w.sum(axis=1, keepdims=True))
    assert place == pytest.approx(o[hits.ray] + d[hits.ray] * hits.t[:, None], abs=1e-3)
    half = mesh.intersect_all(o, d, max_t=0.5)
    assert len(half.t) == (hits.t <= 0.5).sum() and (half.t <= 0.5).all()


def test_hits_at_edges_and_corners_come_once(device):
    """Through the corners and edge midpoints of a cube, outside in: two hits each, one on each side."""
    v, f = oracle.CLOSED["box"]
    mesh = engine.Mesh(v, f, device=device)
    edges = np.unique(np.sort(np.concatenate([f[:, [0, 1]], f[:, [1, 2]], f[:, [2, 0]]]), axis=1), axis=0)
    aims = np.concatenate([v, (v[edges[:, 0]] + v[edges[:, 1]]) / 2]).astype(np.float32)
    center = v.mean(axis=0)
    d = (center - aims).astype(np.float32)
    hits = mesh.intersect_all(aims - d, d)
    assert np.bincount(hits.ray, minlength=len(aims)).tolist() == [2] * len(aims)
    assert hits.t == pytest.approx(np.tile([1.0, 3.0], len(aims)), abs=1e-5)


def test_rays_that_are_none_hit_nothing():
    v, f = oracle.CLOSED["box"]
    mesh = engine.Mesh(v, f)
    o = np.array([[0, 0, 0], [np.nan, 0, 0], [0, 0, 0], [0, 0, np.inf]], np.float32)
    d = np.array([[0, 0, 0], [1, 0, 0], [np.nan, 1, 0], [1, 0, 0]], np.float32)
    assert len(mesh.intersect_all(o, d).ray) == 0
    assert len(mesh.intersect_all(o[:0], d[:0]).ray) == 0
    with pytest.raises(ArgumentError):
        mesh.intersect_all(o, d[:2])


def test_trimesh_asks_the_engine():
    mesh = trimesh.creation.icosphere(3)
    mesh.ray = engine.geom.TrimeshRays(mesh)
    rng = np.random.default_rng(4)
    o, d = random_rays(rng, 60)
    t = oracle.ray_hits(np.asarray(mesh.vertices, np.float32), mesh.faces, o, d)
    meets = np.isfinite(t).any(axis=1)
    first = np.where(meets, np.argmin(t, axis=1), -1)
    assert np.array_equal(mesh.ray.intersects_any(o, d), meets)
    assert np.array_equal(mesh.ray.intersects_first(o, d), first)
    place, ray, face = mesh.ray.intersects_location(o, d)
    assert sorted(zip(ray, face, strict=True)) == sorted(map(tuple, np.argwhere(np.isfinite(t))))
    assert np.linalg.norm(place, axis=1) == pytest.approx(1.0, abs=0.02)
    _place, ray, face = mesh.ray.intersects_location(o, d, multiple_hits=False)
    assert np.array_equal(ray, np.flatnonzero(meets)) and np.array_equal(face, first[meets])
    face, ray = mesh.ray.intersects_id(o, d, max_hits=1)
    assert np.array_equal(face, mesh.ray.intersects_first(o, d)[ray]) and len(np.unique(ray)) == len(ray)
    points = rng.uniform(-1.2, 1.2, (200, 3))
    assert np.array_equal(mesh.contains(points), mesh.ray.contains_points(points))
    clear = np.abs(np.linalg.norm(points, axis=1) - 1) > 0.02
    assert np.array_equal(mesh.contains(points)[clear], np.linalg.norm(points, axis=1)[clear] < 1)


@engine.kernel
def first_t(mesh: engine.uint64, o: engine.array(dtype=engine.vec3), d: engine.array(dtype=engine.vec3),
            t: engine.array(dtype=float)):  # fmt: skip
    i = engine.tid()
    hit = engine.mesh_query_ray(mesh, o[i], d[i], 100.0)
    if hit.result:
        t[i] = hit.t


@engine.kernel
def nearest(mesh: engine.uint64, x: engine.array(dtype=engine.vec3), distance: engine.array(dtype=float)):
    i = engine.tid()
    q = engine.mesh_query_point_no_sign(mesh, x[i], 100.0)
    distance[i] = engine.length(x[i] - engine.mesh_eval_position(mesh, q.face, q.u, q.v))


def test_the_distance_of_a_hit_is_differentiated_by_the_ray(device):
    """Of a plane n · x = c met by o + t d: dt/do = −n / (n · d), dt/dd = t dt/do."""
    v, f = oracle.sphere(2)
    mesh = engine.Mesh(v, f, device=device)
    rng = np.random.default_rng(6)
    o, d = rng.normal(size=(30, 3)) * 0.1, rng.normal(size=(30, 3))
    rays = [engine.array(x.astype(np.float32), dtype=engine.vec3, device=device, requires_grad=True) for x in (o, d)]
    t = engine.zeros(30, dtype=float, device=device, requires_grad=True)
    with engine.Tape() as tape:
        engine.launch(first_t, 30, inputs=[mesh.id, *rays, t], device=device)
    t.grad.fill_(1.0)
    tape.backward()
    hits = mesh.intersect(o, d)
    assert (hits.face >= 0).all()
    a, b, c = (v[f[hits.face][:, i]].astype(float) for i in range(3))
    normal = np.cross(b - a, c - a)
    by_origin = -normal / (normal * d).sum(axis=1, keepdims=True)
    assert rays[0].grad.numpy() == pytest.approx(by_origin, rel=1e-3, abs=1e-3)
    assert rays[1].grad.numpy() == pytest.approx(by_origin * hits.t[:, None], rel=1e-3, abs=1e-3)


def test_the_distance_to_a_mesh_is_differentiated_by_the_point(device):
    """Its derivative is the direction away from the closest point."""
    v, f = oracle.torus()
    mesh = engine.Mesh(v, f, device=device)
    x = np.random.default_rng(7).uniform(-1.6, 1.6, (40, 3)).astype(np.float32)
    points = engine.array(x, dtype=engine.vec3, device=device, requires_grad=True)
    distance = engine.zeros(40, dtype=float, device=device, requires_grad=True)
    with engine.Tape() as tape:
        engine.launch(nearest, 40, inputs=[mesh.id, points, distance], device=device)
    distance.grad.fill_(1.0)
    tape.backward()
    found = mesh.closest(x)
    away = (x - found.point) / found.distance[:, None]
    clear = found.distance > 1e-2
    assert points.grad.numpy()[clear] == pytest.approx(away[clear], abs=2e-3)
