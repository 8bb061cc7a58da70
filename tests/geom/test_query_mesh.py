"""Meshes that kernels ask about: rays, points and boxes against brute force; watertightness; signs; bad input."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine.errors import ArgumentError
from engine.geom import bvh, point_order
from engine.geom.bvh_build import LEAF, LEAF_WORDS
from tests.geom import mesh_oracle as oracle

MESHES = {**oracle.CLOSED, "soup": oracle.soup(0), "one": oracle.soup(1, 1), "two": oracle.soup(2, 2)}
vectors = engine.array(dtype=engine.vec3)


@engine.kernel
def count_crossings(mesh: engine.uint64, o: vectors, d: vectors, n: engine.array(dtype=int)):
    i = engine.tid()
    n[i] = engine.mesh_query_ray_count_intersections(mesh, o[i], d[i])


@engine.kernel
def ask_signs(mesh: engine.uint64, p: vectors, sign: engine.array2d(dtype=float)):
    i = engine.tid()
    sign[i, 0] = engine.mesh_query_point(mesh, p[i], 1.0e6).sign
    sign[i, 1] = engine.mesh_query_point_sign_parity(mesh, p[i], 1.0e6).sign
    sign[i, 2] = engine.mesh_query_point_sign_normal(mesh, p[i], 1.0e6).sign
    sign[i, 3] = engine.mesh_query_point_sign_winding_number(mesh, p[i], 1.0e6).sign


@engine.kernel
def list_triangles(mesh: engine.uint64, lo: vectors, hi: vectors, seen: engine.array2d(dtype=int)):
    i = engine.tid()
    query = engine.mesh_query_aabb(mesh, lo[i], hi[i])
    index = -1
    while engine.mesh_query_aabb_next(query, index):
        seen[i, index] += 1


def vec3s(a):
    return engine.array(np.asarray(a, np.float32), dtype=engine.vec3)


def crossings(mesh, o, d):
    n = engine.full(len(o), -7, dtype=int)
    engine.launch(count_crossings, len(o), inputs=[getattr(mesh, "id", mesh), vec3s(o), vec3s(d), n])
    return n.numpy()


def random_rays(n, seed, spread=1.5):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, 3)) * spread).astype(np.float32), rng.normal(size=(n, 3)).astype(np.float32)


def check_rays(v, f, o, d):
    """Closest hit, any hit and count are those of brute force, but for rays that miss or hit by a rounding error."""
    mesh = engine.Mesh(v, f)
    all_t = oracle.ray_hits(v, f, o, d)
    found = mesh.intersect(o, d)
    t = all_t.min(1)
    hit = np.isfinite(t)
    agree = (found.face >= 0) == hit
    assert agree.mean() >= 0.99, agree.mean()
    both = hit & agree
    size = np.abs(v).max() + np.abs(o).max()
    reach = np.linalg.norm(d, axis=1)
    assert (np.abs(found.t[both] - t[both]) * reach[both] <= 1e-4 * size).all()
    at = o[both] + found.t[both, None] * d[both]
    corners = v[f[found.face[both]]].astype(np.float64)
    w = np.concatenate([found.weights, 1 - found.weights.sum(1, keepdims=True)], 1)[both]
    assert (np.linalg.norm((corners * w[..., None]).sum(1) - at, axis=1) <= 1e-4 * size).all()
    np.testing.assert_array_equal(mesh.occluded(o, d), found.face >= 0)
    assert (crossings(mesh, o, d) == np.isfinite(all_t).sum(1)).mean() >= 0.99


@pytest.mark.parametrize("name", MESHES)
def test_rays_agree_with_brute_force(name):
    v, f = MESHES[name]
    check_rays(v, f, *random_rays(400, 1))


@given(st.integers(0, 10**6), st.integers(1, 60), st.sampled_from([1e-4, 1.0, 1e6]), st.sampled_from([0.0, 10.0]))
@settings(max_examples=15, deadline=None)
def test_rays_against_random_triangles(seed, n, scale, offset):
    v, f = oracle.soup(seed, n)
    o, d = random_rays(60, seed)
    check_rays(((v + offset) * scale).astype(np.float32), f, ((o + offset) * scale).astype(np.float32), d)


def edge_targets(v, f, rng):
    """All corners, middles of edges, and random points of edges."""
    a, b = v[f].reshape(-1, 3), v[np.roll(f, -1, axis=1)].reshape(-1, 3)
    s = rng.uniform(size=(len(a), 1)).astype(np.float32)
    return np.concatenate([v, (a + b) / 2, a + (b - a) * s]).astype(np.float32)


@pytest.mark.parametrize("name", oracle.CLOSED)
def test_watertight(name):
    """Rays through corners and edges, outside in and inside out: none is missed, and parity is exact."""
    v, f = oracle.CLOSED[name]
    rng = np.random.default_rng(3)
    mesh = engine.Mesh(v, f)
    aims = edge_targets(v, f, rng)
    outside = (rng.normal(size=aims.shape) * 0.1 + 6 * rng.choice([-1, 1], aims.shape)).astype(np.float32)
    d = (aims - outside).astype(np.float32)
    n = crossings(mesh, outside, d)
    assert (n % 2 == 0).all()
    # the far end of the segment is as exact as float32 is: what lies inside of the mesh is met for certain
    inner = {"tetrahedron": (0.2, 0.2, 0.2), "torus": (1.0, 0.0, 0.0)}.get(name, (0.0, 0.0, 0.0))
    inside = np.tile(np.float32(inner), (len(aims), 1))
    d = (aims - inside).astype(np.float32)
    n = crossings(mesh, inside, d)
    assert (n % 2 == 1).all()
    found = mesh.intersect(inside, d)
    assert (found.face >= 0).all()
    assert mesh.occluded(inside, d).all()
    if name in ("tetrahedron", "box", "sphere"):  # convex: rays to the centre meet the mesh twice
        d = (inside - outside).astype(np.float32)
        assert (crossings(mesh, outside, d) == 2).all()
        assert (mesh.intersect(outside, d).face >= 0).all()


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_axis_rays_through_the_edges_of_a_grid(axis, sign):
    """Directions with zeros, origins in the planes of boxes and edges: each point of a flat grid is met once."""
    n = 9
    i, j = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    v = np.zeros((n * n, 3), np.float32)
    v[:, (axis + 1) % 3], v[:, (axis + 2) % 3] = i.ravel(), j.ravel()
    at = (i[:-1, :-1] * n + j[:-1, :-1]).ravel()
    f = np.concatenate([np.stack([at, at + n, at + n + 1], 1), np.stack([at, at + n + 1, at + 1], 1)]).astype(np.int32)
    a, b = (x.ravel() for x in np.meshgrid(np.arange(0.5, 8, 0.5), np.arange(0.5, 8, 0.5)))
    o, d = np.zeros((len(a), 3), np.float32), np.zeros((len(a), 3), np.float32)
    o[:, (axis + 1) % 3], o[:, (axis + 2) % 3], o[:, axis], d[:, axis] = a, b, -3 * sign, sign
    mesh = engine.Mesh(v, f)
    assert (crossings(mesh, o, d) == 1).all()
    np.testing.assert_array_equal(mesh.intersect(o, d).t, np.float32(3))
    corners = o.copy()  # the closest hit includes the border
    corners[:, (axis + 1) % 3], corners[:, (axis + 2) % 3] = 8 * (a > 4), 8 * (b > 4)
    assert mesh.occluded(corners, d).all()


def test_max_t_and_length_of_the_direction():
    mesh = engine.Mesh(*oracle.box())
    o = np.float32([[0.1, 0.2, 2.0]] * 3)
    d = np.float32([[0, 0, -1], [0, 0, -1e-20], [0, 0, -1e20]])
    np.testing.assert_allclose(mesh.intersect(o, d).t, [1.5, 1.5e20, 1.5e-20], rtol=1e-6)
    assert mesh.occluded(o[:1], d[:1], max_t=1.5).all()
    assert not mesh.occluded(o[:1], d[:1], max_t=1.4999).any()
    assert (mesh.intersect(o[:1], d[:1], max_t=1.4999).face == -1).all()


@pytest.mark.parametrize("name", MESHES)
def test_closest_points_agree_with_brute_force(name):
    v, f = MESHES[name]
    p = (np.random.default_rng(2).normal(size=(300, 3)) * 1.2).astype(np.float32)
    found = engine.Mesh(v, f).closest(p)
    expected = oracle.distances(v, f, p)
    np.testing.assert_allclose(found.distance, expected.min(1), rtol=1e-5, atol=1e-6)
    chosen = expected[np.arange(len(p)), found.face]
    np.testing.assert_allclose(chosen, expected.min(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found.point - p, axis=1), found.distance, rtol=1e-4, atol=1e-5)


@given(st.integers(0, 10**6), st.sampled_from(["needle", "flat", "point", "twice"]), st.sampled_from([1e-3, 1.0, 1e5]))
@settings(max_examples=16, deadline=None)
def test_degenerate_triangles(seed, kind, scale):
    """Needles, triangles without area, coincident ones: points find them, rays agree with brute force."""
    rng = np.random.default_rng(seed)
    v, f = oracle.soup(seed, 30)
    w = v.reshape(-1, 3, 3)
    if kind == "needle":
        w[:, 2] = w[:, 1] + rng.normal(size=(30, 3)) * 1e-4
    elif kind == "flat":
        w[:, 2] = (w[:, 0] + w[:, 1]) / 2
    elif kind == "point":
        w[:, 1:] = w[:, :1]
    else:
        w[15:] = w[:15]
    v = (v * scale).astype(np.float32)
    p = (rng.normal(size=(40, 3)) * scale).astype(np.float32)
    found = engine.Mesh(v, f).closest(p)
    expected = oracle.distances(v, f, p)
    np.testing.assert_allclose(found.distance, expected.min(1), rtol=1e-4, atol=1e-5 * scale)
    if kind == "twice":
        first = engine.Mesh(v, f[:15]).closest(p)
        np.testing.assert_array_equal(found.face, first.face)  # the lowest number of equals


@pytest.mark.parametrize("name", oracle.CLOSED)
def test_signs(name):
    v, f = oracle.CLOSED[name]
    mesh = engine.Mesh(v, f, support_winding_number=True)
    p = (np.random.default_rng(4).uniform(-1.2, 1.2, (600, 3))).astype(np.float32)
    near = np.abs(oracle.distances(v, f, p).min(1)) < 1e-5
    sign = engine.full((len(p), 4), np.nan)
    engine.launch(ask_signs, len(p), inputs=[mesh.id, vec3s(p), sign])
    inside = oracle.winding_numbers(v, f, p) > 0.5
    expected = np.where(inside, -1.0, 1.0)
    for column in range(4):
        np.testing.assert_array_equal(sign.numpy()[~near, column], expected[~near])
    np.testing.assert_array_equal(mesh.contains(p)[~near], inside[~near])
    np.testing.assert_array_equal(engine.Mesh(v, f).contains(p)[~near], inside[~near])


def test_turned_meshes_are_all_outside_but_for_parity():
    v, f = oracle.sphere()
    mesh = engine.Mesh(v, f[:, ::-1], support_winding_number=True)
    sign = engine.full((1, 4), np.nan)
    engine.launch(ask_signs, 1, inputs=[mesh.id, vec3s([[0.1, 0.2, 0.3]]), sign])
    assert sign.numpy()[0].tolist() == [1.0, -1.0, 1.0, 1.0]


@pytest.mark.parametrize("name", ["sphere", "soup", "one", "spiky"])
def test_boxes_agree_with_brute_force(name):
    v, f = MESHES[name]
    mesh = engine.Mesh(v, f)
    rng = np.random.default_rng(6)
    lo = rng.uniform(-1.5, 1, (50, 3)).astype(np.float32)
    hi = (lo + rng.uniform(0, 0.7, (50, 3))).astype(np.float32)
    seen = engine.zeros((50, len(f)), dtype=int)
    engine.launch(list_triangles, 50, inputs=[mesh.id, vec3s(lo), vec3s(hi), seen])
    lower, upper = v[f].min(1), v[f].max(1)
    expected = ((lower[None] <= hi[:, None]) & (upper[None] >= lo[:, None])).all(-1)
    np.testing.assert_array_equal(seen.numpy(), expected)


def test_refit_follows_the_points_and_rebuild_gives_the_same_answers():
    v, f = oracle.spiky()
    points = vec3s(v)
    mesh = engine.Mesh(points, engine.array(f.ravel(), dtype=int), support_winding_number=True)
    handle = mesh.id
    moved = (v * [1.0, 2.0, 0.5] + [5.0, -3.0, 1.0]).astype(np.float32)
    points.assign(moved)
    mesh.refit()
    o, d = random_rays(200, 7)
    o = (o + [5.0, -3.0, 1.0]).astype(np.float32)
    fresh = engine.Mesh(moved, f, support_winding_number=True)
    for _ in range(2):
        np.testing.assert_array_equal(mesh.intersect(o, d).face, fresh.intersect(o, d).face)
        np.testing.assert_array_equal(mesh.closest(o).distance, fresh.closest(o).distance)
        np.testing.assert_array_equal(mesh.contains(o), fresh.contains(o))
        mesh.rebuild()
        assert mesh.id == handle


def test_large_mesh_is_built_by_several_workers_with_one_result():
    """More than one round of tasks; the same hierarchy with any number of workers, within 80 bytes for a triangle."""
    v, f = oracle.sphere(6)
    answers = []
    for threads in (1, 2):
        with engine.config.scope(threads=threads):
            mesh = engine.Mesh(v, f)
        answers.append(mesh._tree.nodes.numpy().copy())
        assert mesh.nbytes <= 80 * len(f)
    np.testing.assert_array_equal(*answers)
    members = mesh._tree.leaves.numpy().reshape(-1, LEAF_WORDS)[:, 9 * LEAF :].copy().view(np.int32)
    np.testing.assert_array_equal(np.sort(members[members >= 0]), np.arange(len(f)))
    o, d = random_rays(500, 8)
    t = mesh.intersect(o, d).t
    near = oracle.ray_hits(v, f, o[:20], d[:20]).min(1)
    np.testing.assert_allclose(t[:20], near, rtol=1e-5)


def test_coincident_triangles_are_a_tree_of_bounded_depth():
    v, f = oracle.soup(3, 1)
    mesh = engine.Mesh(v, np.repeat(f, 5000, axis=0))
    assert len(mesh._tree.topology.levels) <= 8
    d = v.mean(0)[None] - [[5.0, 5.0, 5.0]]
    assert mesh.intersect([[5.0, 5.0, 5.0]], d).face.tolist() == [0]
    assert crossings(mesh, [[5.0, 5.0, 5.0]], d).tolist() == [5000]


@pytest.mark.parametrize("count", [0, 1, 2, 4, 5])
def test_few_triangles(count):
    v, f = oracle.soup(9, max(count, 1))
    mesh = engine.Mesh(v, f[:count])
    o, d = random_rays(50, 10)
    expected = oracle.ray_hits(v, f[:count], o, d) if count else np.full((50, 1), np.inf)
    np.testing.assert_array_equal(mesh.intersect(o, d).face >= 0, np.isfinite(expected).any(1))
    if count == 0:
        assert not mesh.occluded(o, d).any()
        assert (mesh.closest(o).face == -1).all()
        assert np.isnan(mesh.closest(o).point).all()
        assert not mesh.contains(o).any()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_triangles_with_corners_that_are_not_finite_are_skipped(bad):
    v, f = oracle.sphere()
    v = v.copy()
    v[3, 1] = bad
    touching = (f == 3).any(1)
    mesh = engine.Mesh(v, f, support_winding_number=True)
    assert mesh.skipped == touching.sum()
    o, d = random_rays(200, 11)
    rest = engine.Mesh(v, f[~touching])
    np.testing.assert_array_equal(mesh.intersect(o, d).t, rest.intersect(o, d).t)
    np.testing.assert_array_equal(mesh.closest(o).distance, rest.closest(o).distance)


def test_points_that_become_nan_are_left_out_until_they_are_finite_again():
    v, f = oracle.sphere()
    points = vec3s(v)
    mesh = engine.Mesh(points, f, support_winding_number=True)
    o, d = random_rays(200, 12)
    before = mesh.intersect(o, d).t
    broken = v.copy()
    broken[5] = np.nan
    points.assign(broken)
    mesh.refit()
    rest = engine.Mesh(v, f[~(f == 5).any(1)])
    np.testing.assert_array_equal(mesh.intersect(o, d).t, rest.intersect(o, d).t)
    np.testing.assert_allclose(mesh.closest(o).distance, rest.closest(o).distance, rtol=1e-6)
    points.assign(v)
    mesh.refit()
    np.testing.assert_array_equal(mesh.intersect(o, d).t, before)


def test_rays_and_points_that_are_no_numbers_find_nothing():
    mesh = engine.Mesh(*oracle.sphere(), support_winding_number=True)
    o = np.zeros((6, 3), np.float32)
    d = np.float32([[0, 0, 0], [np.nan, 0, 1], [np.inf, 0, 1], [0, 0, 1], [0, 0, 1], [1, 1, 1]])
    o[3, 0], o[4, 1] = np.nan, np.inf
    assert (mesh.intersect(o, d).face >= 0).tolist() == [False] * 5 + [True]
    assert mesh.occluded(o, d).tolist() == [False] * 5 + [True]
    assert crossings(mesh, o, d).tolist() == [0] * 5 + [1]
    assert not mesh.occluded(o[5:], d[5:], max_t=np.nan).any()
    assert not mesh.occluded(o[5:], d[5:], max_t=-1.0).any()
    assert (mesh.closest(o).face >= 0).tolist() == [True, True, True, False, False, True]
    assert (mesh.closest(o[:1], max_dist=0.5).face == -1).all()


@pytest.mark.parametrize("scale", [1e-30, 1e18, 3e37])
def test_numbers_at_the_ends_of_the_range_end_in_an_answer(scale):
    v, f = oracle.sphere()
    with np.errstate(over="ignore"):
        mesh = engine.Mesh((v * scale).astype(np.float32), f, support_winding_number=True)
    o, d = random_rays(50, 13)
    for s in (1.0, scale):
        mesh.intersect(o * np.float32(s), d), mesh.closest(o * np.float32(s)), mesh.contains(o * np.float32(s))
        crossings(mesh, o * np.float32(s), d)


def test_bad_arrays_are_refused():
    v, f = oracle.sphere()
    for points, indices, message in [
        (v, f + len(v), "out of range"), (v, f - 1, "index -1 is out of range"), (v, f[:, :2].ravel()[:5], "not three"),
        (v[:, :2], f, r"shape \(n, 3\)"), (v, f.astype(float), "whole numbers"), (v, f.astype(int) << 33, "32 bits"),
        (engine.array(v.astype(float), dtype=engine.vec3d), engine.array(f.ravel(), dtype=int), "dtype"),
    ]:  # fmt: skip
        with pytest.raises(engine.errors.ArgumentError, match=message):
            engine.Mesh(points, indices)
    with pytest.raises(engine.errors.ArgumentError, match="velocities for"):
        engine.Mesh(v, f, velocities=v[:-1])
    with pytest.raises(ValueError, match="unknown constructor"):
        engine.Mesh(v, f, bvh_constructor="best")
    mesh = engine.Mesh(v, f)
    with pytest.raises(engine.errors.ArgumentError, match="2 origins for 3 directions"):
        mesh.intersect(v[:2], v[:3])
    with pytest.raises(engine.errors.ArgumentError, match="the new points"):
        mesh.points = vec3s(v[:-1])


@engine.kernel
def read_mesh(mesh: engine.uint64, out: engine.array(dtype=engine.vec3), n: engine.array(dtype=int)):
    got = engine.mesh_get(mesh)
    out[0] = got.points[2]
    out[1] = engine.mesh_get_point(mesh, 4)
    out[2] = engine.mesh_get_velocity(mesh, 4)
    out[3] = engine.mesh_eval_position(mesh, 1, 0.25, 0.5)
    out[4] = engine.mesh_eval_velocity(mesh, 1, 0.25, 0.5)
    out[5] = engine.mesh_eval_face_normal(mesh, 0)
    n[0] = engine.mesh_get_index(mesh, 4)
    n[1] = got.indices[4]
    t, u, v, sign = 0.0, 0.0, 0.0, 0.0
    normal = engine.vec3()
    face = 0
    hit = engine.mesh_query_ray(mesh, engine.vec3(0.1, 0.1, 1.0), engine.vec3(0.0, 0.0, -1.0), 9.0, t, u, v, sign,
                                normal, face)  # fmt: skip
    out[6] = engine.vec3(t, sign, float(face))
    out[7] = normal
    n[2] = int(hit)


def test_reading_a_mesh_in_a_kernel():
    v, f = oracle.tetrahedron()
    mesh = engine.Mesh(v, f, velocities=v * 2)
    out, n = engine.full(8, np.nan, dtype=engine.vec3), engine.full(3, -1, dtype=int)
    engine.launch(read_mesh, 1, inputs=[mesh.id, out, n])
    got = out.numpy()
    at = 0.25 * v[0] + 0.5 * v[1] + 0.25 * v[3]
    np.testing.assert_array_equal(got[:6], [v[2], v[1], 2 * v[1], at, 2 * at, [0, 0, -1]])
    assert n.numpy().tolist() == [1, 1, 1]
    np.testing.assert_allclose(got[6], [0.2, 1.0, 2.0], atol=1e-6)
    np.testing.assert_allclose(got[7], np.ones(3) / np.sqrt(3), atol=1e-6)


def test_geometry_page(tmp_path):
    """The examples of docs/geometry.md, one after the other."""
    page = (Path(__file__).parents[2] / "docs/geometry.md").read_text()
    path = tmp_path / "page.py"
    path.write_text("\n".join(re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)))
    exec(compile(path.read_text(), str(path), "exec"), {"__name__": "page"})


@engine.kernel
def answers_in_variables(
    mesh: engine.uint64, p: engine.array(dtype=engine.vec3), out: engine.array(dtype=float, ndim=2)
):
    i = engine.tid()
    sign, face, u, v = 7.0, -5, 8.0, 9.0
    found = engine.mesh_query_point(mesh, p[i], 1.0, sign, face, u, v)
    q = engine.mesh_query_point(mesh, p[i], 1.0)
    out[i, 0], out[i, 1], out[i, 2], out[i, 3], out[i, 4] = float(int(found)), sign, float(face), u, v
    out[i, 5], out[i, 6], out[i, 7], out[i, 8], out[i, 9] = float(int(q.result)), q.sign, float(q.face), q.u, q.v


def test_answers_in_variables_stay_where_nothing_is_near():
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)
    faces = np.array([0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3], np.int32)
    mesh = engine.Mesh(engine.array(corners, dtype=engine.vec3), engine.array(faces, dtype=int))
    points = engine.array(np.array([[0.1, 0.1, 0.1], [0.9, 0.9, 0.9], [5, 5, 5]], np.float32), dtype=engine.vec3)
    out = engine.full((3, 10), np.nan, dtype=float)
    engine.launch(answers_in_variables, dim=3, inputs=[mesh.id, points, out])
    told, asked = out.numpy()[:, :5], out.numpy()[:, 5:]
    assert (told[:2] == asked[:2]).all() and told[:2, 0].tolist() == [1, 1] and told[:2, 1].tolist() == [-1, 1]
    assert told[2].tolist() == [0, 7, -5, 8, 9]


def test_ids_of_meshes_that_are_gone_find_nothing(monkeypatch):
    """In memory that stays theirs, until many others have gone."""
    v, f = oracle.sphere(1)
    points = vec3s(0.2 * v[:3])
    out = engine.full((3, 10), np.nan, dtype=float)

    def found(id):
        engine.launch(answers_in_variables, dim=3, inputs=[id, points, out])
        return out.numpy()[:, 0].tolist() + crossings(id, 0.2 * v[:3], v[:3]).tolist()

    mesh = engine.Mesh(v, f)
    left, handle = len(bvh._left_behind), mesh.id
    assert found(handle) == [1] * 6
    mesh.__del__()
    mesh.__del__()
    assert found(handle) == [0] * 6 and len(bvh._left_behind) == left + 1
    monkeypatch.setattr(bvh, "LEFT_BEHIND", 1)
    handles = {engine.Mesh(v, f).id for _ in range(left + 3)}
    assert handle in handles and found(handle) == [0] * 6
    with pytest.raises(ArgumentError):
        engine.Mesh(v, f + 1000)


@pytest.mark.parametrize("name", ["sphere", "nothing", "huge"])
def test_many_points_are_answered_as_few_are(name):
    """Many go along a curve through space."""
    v, f = oracle.sphere(1)
    v, f = {"sphere": (v, f), "nothing": (v, f[:0]), "huge": (v * np.float32(1e38), f)}[name]
    mesh = engine.Mesh(np.asarray(v, np.float32), f)
    rng = np.random.default_rng(3)
    points = (rng.normal(size=(2500, 3)) * (1e37 if name == "huge" else 1.0)).astype(np.float32)
    points[::50] *= 1e6 if name != "huge" else 1.0
    points[::70] = np.nan
    parts = np.array_split(points, 5)
    near = mesh.closest(points)
    for field in vars(near):
        few = np.concatenate([getattr(mesh.closest(part), field) for part in parts])
        np.testing.assert_array_equal(getattr(near, field), few)
    np.testing.assert_array_equal(mesh.contains(points), np.concatenate([mesh.contains(part) for part in parts]))
    order = point_order.curve_order(vec3s(points), *mesh._tree.bounds.numpy()).numpy()
    assert np.array_equal(np.sort(order), np.arange(2500)) and (name != "sphere" or (np.diff(order) < 0).any())
