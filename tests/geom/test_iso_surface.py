"""Surfaces of fields: closed, turned outward, of the right genus, where the field says, differentiated."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine.errors import ArgumentError
from engine.geom.cube_cases import EDGES, FACE_EDGES, case_triangles

BOTH = pytest.mark.parametrize("method", [engine.MarchingCubes, engine.SurfaceNets])


def extracted(method, values, threshold=0.0, device=None, **options):
    field = engine.array(np.asarray(values, np.float32), dtype=float, device=device)
    vertices, indices = method.extract(field, threshold, **options)
    return vertices.numpy(), indices.numpy().reshape(-1, 4 if options.get("topology") == "quad" else 3)


def edge_balance(faces):
    """(directed edges without their opposites, most faces at an edge)."""
    edges = Counter((int(f[i]), int(f[(i + 1) % len(f)])) for f in faces for i in range(len(f)))
    open_edges = sum(abs(n - edges[b, a]) for (a, b), n in edges.items())
    return open_edges, max((n + edges[b, a] for (a, b), n in edges.items()), default=0)


def euler(faces):
    edges = {frozenset((int(f[i]), int(f[(i + 1) % 3]))) for f in faces for i in range(3)}
    return len(np.unique(faces)) - len(edges) + len(faces)


def enclosed(vertices, faces):
    a, b, c = (vertices[faces[:, n]].astype(float) for n in range(3))
    return np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6.0


def grid(n, low=-1.0, high=1.0):
    axis = np.linspace(low, high, n)
    return np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1)


def sphere(n, radius=0.7):
    return np.linalg.norm(grid(n), axis=-1) - radius


def torus(n):
    p = grid(n)
    return np.hypot(np.hypot(p[..., 0], p[..., 1]) - 0.6, p[..., 2]) - 0.22


@BOTH
def test_spheres_and_tori_are_closed_and_of_their_genus(method, device):
    ball, ring = 4 / 3 * np.pi * 0.7**3, 2 * np.pi**2 * 0.6 * 0.22**2
    for values, characteristic, volume in ((sphere(40), 2, ball), (torus(60), 0, ring)):
        vertices, faces = extracted(method, values, device=device, lower=(-1, -1, -1), upper=(1, 1, 1))
        assert edge_balance(faces) == (0, 2)
        assert euler(faces) == characteristic
        assert enclosed(vertices, faces) == pytest.approx(volume, rel=0.02)  # outward: positive
        assert np.array_equal(np.unique(faces), np.arange(len(vertices)))


@BOTH
def test_vertices_lie_on_the_surface_of_a_linear_field(method, device):
    p = grid(9, 0.0, 8.0)
    values = p @ [1.0, 0.4, -0.3] - 3.3
    vertices, faces = extracted(method, values, 0.25, device, lower=(1, 2, 3), upper=(5, 2 + 16, 3 + 8))
    back = (vertices - [1, 2, 3]) * [2, 0.5, 1]
    assert len(faces) > 20
    assert back @ [1.0, 0.4, -0.3] - 3.3 == pytest.approx(0.25, abs=2e-5)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.tuples(*[st.integers(2, 6)] * 3), st.sampled_from([0.2, 0.5, 0.8]), st.booleans())
def test_random_fields_give_closed_surfaces(seed, shape, share, rounded):
    """Of noise inside a border of outside nodes: every edge has two triangles, in opposite directions."""
    rng = np.random.default_rng(seed)
    values = np.ones(tuple(n + 2 for n in shape))
    noise = rng.uniform(size=shape) - share
    values[1:-1, 1:-1, 1:-1] = np.round(noise * 2) / 2 if rounded else noise  # rounded: nodes equal to the threshold
    vertices, faces = extracted(engine.MarchingCubes, values)
    assert edge_balance(faces) in ((0, 2), (0, 0))
    assert np.isfinite(vertices).all() and np.array_equal(np.unique(faces), np.arange(len(vertices)))
    assert enclosed(vertices, faces) >= -1e-6
    nets, quads = extracted(engine.SurfaceNets, values, topology="quad")
    assert edge_balance(quads)[0] == 0 and np.isfinite(nets).all()
    assert len(quads) == len(vertices)  # one for each cut edge


def test_each_case_joins_the_cut_edges():
    for case in range(256):
        cut = {e for e, (a, b) in enumerate(EDGES) if (case >> a & 1) != (case >> b & 1)}
        triangles = case_triangles(case)
        assert {e for t in triangles for e in t} == cut
        edges = Counter((t[i], t[(i + 1) % 3]) for t in triangles for i in range(3))
        for (a, b), n in edges.items():
            in_face = any(a in face and b in face for face in FACE_EDGES)
            assert n == 1 and (in_face != ((b, a) in edges))  # borders lie in faces, diagonals do not


@BOTH
def test_the_same_bits_every_time(method):
    values = sphere(20) + 0.1 * np.sin(9 * grid(20)[..., 0])
    first = extracted(method, values)
    with engine.config.scope(threads=2):
        second = extracted(method, values)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@engine.kernel
def fill_ball(field: engine.array3d(dtype=float), radius: engine.array(dtype=float)):
    i, j, l = engine.tid()
    half = 0.5 * float(field.shape[0] - 1)
    p = engine.vec3(float(i) - half, float(j) - half, float(l) - half) / half
    field[i, j, l] = engine.length(p) - radius[0]


@engine.kernel
def add_areas(
    vertices: engine.array(dtype=engine.vec3), indices: engine.array(dtype=int), area: engine.array(dtype=float)
):
    i = engine.tid()
    a, b, c = vertices[indices[3 * i]], vertices[indices[3 * i + 1]], vertices[indices[3 * i + 2]]
    engine.atomic_add(area, 0, 0.5 * engine.length(engine.cross(b - a, c - a)))


@BOTH
def test_the_area_is_differentiated_by_the_field(method, device):
    radius = engine.array([0.6], dtype=float, device=device, requires_grad=True)
    field = engine.zeros((32, 32, 32), dtype=float, device=device, requires_grad=True)
    area = engine.zeros(1, dtype=float, device=device, requires_grad=True)
    with engine.Tape() as tape:
        engine.launch(fill_ball, field.shape, inputs=[field, radius], device=device)
        vertices, indices = method.extract(field, lower=(-1, -1, -1), upper=(1, 1, 1))
        engine.launch(add_areas, len(indices) // 3, inputs=[vertices, indices, area], device=device)
    tape.backward(area)
    assert area.numpy()[0] == pytest.approx(4 * np.pi * 0.36, rel=0.02)
    assert radius.grad.numpy()[0] == pytest.approx(8 * np.pi * 0.6, rel=0.02)


@BOTH
def test_fields_without_surface_and_fields_that_are_no_numbers(method, device):
    for values in (np.ones((3, 4, 5)), -np.ones((2, 2, 2)), np.full((3, 3, 3), np.nan), np.full((3, 3, 3), np.inf)):
        vertices, faces = extracted(method, values, device=device)
        assert len(vertices) == len(faces) == 0
    for wild in (np.nan, np.inf, -np.inf, 3e38):
        values = sphere(8)
        values[3:5, 3, 3] = wild
        vertices, faces = extracted(method, values, device=device)
        assert np.isfinite(vertices).all() and len(faces) > 0 and edge_balance(faces)[0] == 0


@BOTH
def test_what_is_refused(method):
    for bad in (engine.zeros((1, 8, 8)), engine.zeros((8, 8, 0)), engine.zeros((8, 8)),
                engine.zeros((4, 4, 4), dtype=engine.float64), np.zeros((4, 4, 4), np.float32)):  # fmt: skip
        with pytest.raises(ArgumentError):
            method.extract(bad)
    good = engine.zeros((4, 4, 4))
    with pytest.raises(ArgumentError, match="shape"):
        method(5, 4, 4).surface(good)
    for lower in ((0, 0), (0, 0, np.nan), (0, 0, 0, 0)):
        with pytest.raises(ArgumentError):
            method.extract(good, lower=lower)
    with pytest.raises(ArgumentError, match="topology"):
        engine.SurfaceNets.extract(good, topology="quads")


def test_the_object_keeps_its_bounds_and_takes_new_sizes():
    iso = engine.MarchingCubes(20, 20, 20, lower=(-1, -1, -1), upper=(1, 1, 1))
    iso.surface(engine.array(sphere(20).astype(np.float32), dtype=float))
    assert np.linalg.norm(iso.verts.numpy(), axis=1) == pytest.approx(0.7, abs=0.01)
    iso.resize(12, 12, 12)
    iso.surface(engine.array(sphere(12).astype(np.float32), dtype=float))
    assert len(iso.indices.numpy()) % 3 == 0 and len(iso.verts.numpy()) > 20


def test_older_names_warn_at_the_line_that_uses_them():
    with pytest.warns(DeprecationWarning, match="`domain_bounds_lower_corner` is deprecated. Use `lower`") as seen:
        iso = engine.MarchingCubes(4, 4, 4, domain_bounds_lower_corner=(0, 0, 0))
    assert seen[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="`domain_bounds_upper_corner` is deprecated"):
        engine.MarchingCubes(4, 4, 4, domain_bounds_upper_corner=None)
    with pytest.warns(DeprecationWarning, match=r"MarchingCubes\.domain_bounds_upper_corner is deprecated") as seen:
        iso.domain_bounds_upper_corner = (1, 1, 1)
    assert seen[0].filename == __file__ and iso.upper == (1, 1, 1)
    field = engine.array(np.random.default_rng(1).normal(size=(4, 4, 4)), dtype=float)
    with pytest.warns(DeprecationWarning, match="Use `extract` instead") as seen:
        old = engine.MarchingCubes.extract_surface_marching_cubes(field)
    assert seen[0].filename == __file__
    np.testing.assert_array_equal(old[1].numpy(), engine.MarchingCubes.extract(field)[1].numpy())
