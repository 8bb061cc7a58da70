"""The furthest point of a mesh: always a corner, against all corners."""

import numpy as np
import pytest

import engine
from tests.geom import mesh_oracle


@engine.kernel
def look(mesh: engine.uint64, points: engine.array(dtype=engine.vec3), min_dist: float, face: engine.array(dtype=int),
         place: engine.array(dtype=engine.vec3), again: engine.array(dtype=int)):  # fmt: skip
    i = engine.tid()
    q = engine.mesh_query_furthest_point_no_sign(mesh, points[i], min_dist)
    face[i] = -1
    if q.result:
        face[i] = q.face
        place[i] = engine.mesh_eval_position(mesh, q.face, q.u, q.v)
    found, u, v = -1, 0.0, 0.0
    again[i] = -1
    if engine.mesh_query_furthest_point_no_sign(mesh, points[i], min_dist, found, u, v):
        again[i] = found


def furthest(mesh, points, min_dist=0.0):
    n, device = len(points), mesh.device
    face, again = (engine.full(n, -7, dtype=int, device=device) for _ in range(2))
    place = engine.full(n, engine.vec3(np.nan), dtype=engine.vec3, device=device)
    given = engine.array(points, dtype=engine.vec3, device=device)
    engine.launch(look, n, inputs=[mesh.id, given, min_dist, face, place, again], device=device)
    np.testing.assert_array_equal(face.numpy(), again.numpy())
    return face.numpy(), place.numpy()


@pytest.mark.parametrize("where", ["cpu", "emu"])
@pytest.mark.parametrize("name", ["box", "spiky"])
def test_it_is_the_furthest_corner(where, name, rng):
    v, f = mesh_oracle.CLOSED[name]
    points = np.concatenate([rng.normal(size=(30, 3)), np.zeros((1, 3))]).astype(np.float32)
    points = points if where == "cpu" else points[-6:]
    face, place = furthest(engine.Mesh(v, f, device=where), points)
    far = np.linalg.norm(v.astype(float)[None] - points.astype(float)[:, None], axis=-1)
    np.testing.assert_allclose(np.linalg.norm(place - points, axis=1), far.max(axis=1), rtol=1e-6)
    of_faces = far[:, f].max(axis=2)
    assert face.tolist() == of_faces.argmax(axis=1).tolist()  # the lowest number of those that are equally far


def test_what_is_too_near_or_no_number_is_not_found():
    v, f = mesh_oracle.box()
    mesh = engine.Mesh(v, f)
    corner = np.sqrt(0.75)
    assert furthest(mesh, np.zeros((1, 3)), 0.999 * corner)[0].tolist() == [0]
    assert furthest(mesh, np.zeros((1, 3)), 1.001 * corner)[0].tolist() == [-1]
    assert furthest(mesh, np.full((1, 3), np.nan))[0].tolist() == [-1]
    assert furthest(mesh, np.zeros((1, 3)), np.nan)[0].tolist() == [-1]
    assert furthest(engine.Mesh(v, f[:0]), np.zeros((1, 3)))[0].tolist() == [-1]
    broken = v.copy()
    broken[0] = np.nan
    rest = f[~(f == 0).any(axis=1)]
    far = np.linalg.norm(v[rest] - 0.1, axis=-1).max()
    _face, place = furthest(engine.Mesh(broken, f), np.full((1, 3), 0.1, np.float32))
    assert np.linalg.norm(place[0] - 0.1) == pytest.approx(far)
