"""Meshes that move: points and velocities written by kernels, a refit in each step, in a recorded graph as well."""

import numpy as np
import pytest

import engine
from tests.geom import mesh_oracle

SPIN = np.array([0.3, -0.2, 1.1], np.float32)  # rad/s


@engine.kernel
def move(rest: engine.array(dtype=engine.vec3), time: engine.array(dtype=float), spin: engine.vec3,
         points: engine.array(dtype=engine.vec3), velocities: engine.array(dtype=engine.vec3)):  # fmt: skip
    i = engine.tid()
    turn = engine.quat_from_axis_angle(engine.normalize(spin), engine.length(spin) * time[0])
    x = engine.quat_rotate(turn, rest[i])
    points[i] = x
    velocities[i] = engine.cross(spin, x)


@engine.kernel
def advance(time: engine.array(dtype=float), dt: float):
    time[0] += dt


@engine.kernel
def look(mesh: engine.uint64, o: engine.array(dtype=engine.vec3), d: engine.array(dtype=engine.vec3),
         t: engine.array(dtype=float), velocity: engine.array(dtype=engine.vec3)):  # fmt: skip
    i = engine.tid()
    hit = engine.mesh_query_ray(mesh, o[i], d[i], 10.0)
    t[i] = hit.t if hit.result else engine.inf
    velocity[i] = engine.mesh_eval_velocity(mesh, hit.face, hit.u, hit.v) if hit.result else engine.vec3(0.0)


def rotated(v, time):
    angle = np.linalg.norm(SPIN) * time
    axis = SPIN / np.linalg.norm(SPIN)
    along = np.outer(v @ axis, axis)
    return along + (v - along) * np.cos(angle) + np.cross(axis, v) * np.sin(angle)


@pytest.mark.parametrize("recorded", [False, True])
def test_each_step_is_a_refit(device, recorded, rng):
    v, f = mesh_oracle.spiky()
    rest = engine.array(v, dtype=engine.vec3, device=device)
    points, velocities = engine.array(v, dtype=engine.vec3, device=device), engine.zeros_like(rest)
    mesh = engine.Mesh(points, engine.array(f.ravel(), dtype=int, device=device), velocities,
                       support_winding_number=True)  # fmt: skip
    time = engine.zeros(1, dtype=float, device=device)
    o = rng.normal(size=(300, 3)) * 2
    rays = [engine.array(x.astype(np.float32), dtype=engine.vec3, device=device) for x in (o, -o)]
    t, velocity = engine.full(300, np.nan, dtype=float, device=device), engine.zeros_like(rays[0])

    def step():
        engine.launch(advance, 1, inputs=[time, 0.25], device=device)
        engine.launch(move, len(v), inputs=[rest, time, engine.vec3(*SPIN), points, velocities], device=device)
        mesh.refit()
        engine.launch(look, 300, inputs=[mesh.id, *rays, t, velocity], device=device)

    graph = None
    if recorded:
        with engine.ScopedCapture(device=device) as capture:
            step()
        graph = capture.graph
        time.zero_()
    for count in range(1, 4):
        step() if graph is None else engine.capture_launch(graph)
        now = points.numpy()
        np.testing.assert_allclose(now, rotated(v.astype(float), 0.25 * count), atol=1e-5)
        fresh = engine.Mesh(now, f, device=device)
        hits = fresh.intersect(o, -o)
        np.testing.assert_array_equal(t.numpy(), hits.t)
        met = hits.face >= 0
        assert met.sum() > 200
        places = o[met] - o[met] * hits.t[met][:, None]
        np.testing.assert_allclose(velocity.numpy()[met], np.cross(SPIN, places), atol=1e-4)
        np.testing.assert_array_equal(mesh.contains(o / 4), fresh.contains(o / 4))


def test_velocities_are_checked_and_may_be_given_later():
    v, f = mesh_oracle.tetrahedron()
    mesh = engine.Mesh(v, f)
    assert mesh.velocities is None
    mesh.velocities = engine.array(2 * v, dtype=engine.vec3)
    o, d = [engine.array(x, dtype=engine.vec3) for x in ([[0.2, 0.2, 1.0]], [[0.0, 0.0, -1.0]])]
    t, velocity = engine.zeros(1), engine.zeros(1, dtype=engine.vec3)
    engine.launch(look, 1, inputs=[mesh.id, o, d, t, velocity])
    np.testing.assert_allclose(velocity.numpy()[0], 2 * np.array([0.2, 0.2, 0.6]), atol=1e-6)
    with pytest.raises(engine.errors.ArgumentError, match="3 velocities for 4 points"):
        mesh.velocities = engine.zeros(3, dtype=engine.vec3)
