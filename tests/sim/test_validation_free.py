"""Free bodies against closed forms: fall, projectile, torque-free rotation, a centre of mass off the origin."""

import math

import numpy as np
import pytest

from engine.sim.builder import ModelBuilder
from engine.sim.simulation import Simulation

G = 9.81
ONE = (0.0, 0.0, 0.0, 1.0)


def falling(height, substeps, dt, velocity=(0.0, 0.0, 0.0)):
    b = ModelBuilder(up_axis="z", gravity=-G)
    body = b.add_body(xform=((0.0, 0.0, height), ONE), linear_velocity=velocity)
    b.add_shape_sphere(body, radius=0.1, density=1000.0)
    return Simulation(b.finalize(), dt=dt, substeps=substeps)


@pytest.mark.parametrize("substeps", [1, 4])
def test_free_fall_is_symplectic_euler(substeps):
    """z after n solver steps of h is h0 − g h² n (n + 1) / 2, v is −g t."""
    dt, frames, height = 1 / 60, 120, 50.0
    sim = falling(height, substeps, dt)
    for frame in range(1, frames + 1):
        sim.step()
        h, n = dt / substeps, frame * substeps
        pose, velocity = sim.state.body_q.numpy()[0], sim.state.body_qd.numpy()[0]
        fallen = G * h * h * n * (n + 1) / 2
        assert abs(pose[2] - (height - fallen)) < 1e-5 * height
        assert abs(velocity[2] + G * frame * dt) < 1e-5 * G * frame * dt
    assert sim.time == pytest.approx(frames * dt)


def test_projectile_range_and_apex():
    speed, angle, dt = 10.0, math.radians(50), 1 / 240
    sim = falling(0.0, 4, dt, (speed * math.cos(angle), 0.0, speed * math.sin(angle)))
    time, path = 2 * speed * math.sin(angle) / G, [sim.state.body_q.numpy()[0, :3].copy()]
    while sim.time < time:
        sim.step()
        path.append(sim.state.body_q.numpy()[0, :3].copy())
    path = np.array(path)
    tolerance = 2 * G * dt * time
    assert abs(path[:, 2].max() - (speed * math.sin(angle)) ** 2 / (2 * G)) < tolerance
    past = int(np.argmax(path[1:, 2] < 0)) + 1  # the landing lies between this sample and the one before
    part = path[past - 1, 2] / (path[past - 1, 2] - path[past, 2])
    landing = path[past - 1, 0] + part * (path[past, 0] - path[past - 1, 0])
    assert abs(landing - speed**2 * math.sin(2 * angle) / G) < tolerance


def spinning_box(omega, dt=1 / 240, substeps=1):
    """Half extents .1, .2, .3 and 1 kg: moments of inertia .043333, .033333, .016667 kg·m²."""
    b = ModelBuilder(gravity=0.0)
    body = b.add_body(angular_velocity=omega)
    b.add_shape_box(body, hx=0.1, hy=0.2, hz=0.3, density=1 / (8 * 0.1 * 0.2 * 0.3))
    return Simulation(b.finalize(), dt=dt, substeps=substeps)


def in_body_axes(q, v):
    u, w = -np.asarray(q[:3], float), float(q[3])
    return v + 2 * w * np.cross(u, v) + 2 * np.cross(u, np.cross(u, v))


MOMENTS = np.array([0.043333333, 0.033333333, 0.016666667])


def test_dzhanibekov_flips_when_theory_says_and_keeps_its_invariants():
    dt = 1 / 240
    sim = spinning_box((0.05, 5.0, 0.05), dt)
    crossings, before = [], 5.0
    l0, e0 = None, None
    while sim.time < 18.0:
        sim.step()
        omega = in_body_axes(sim.state.body_q.numpy()[0, 3:], sim.state.body_qd.numpy()[0, 3:].astype(float))
        momentum, energy = np.linalg.norm(MOMENTS * omega), 0.5 * (MOMENTS * omega**2).sum()
        l0, e0 = (momentum, energy) if l0 is None else (l0, e0)
        assert abs(momentum / l0 - 1) < 1e-3
        assert abs(energy / e0 - 1) < 1e-3
        if (omega[1] > 0) != (before > 0):
            crossings.append(sim.time - dt * abs(omega[1]) / (abs(omega[1]) + abs(before)))
        before = omega[1]
    assert np.allclose(crossings, [2.0970, 7.2071, 12.3173, 17.4274], rtol=0.01)


@pytest.mark.parametrize("omega", [(20.0, 0.05, 0.05), (0.05, 0.05, 20.0)], ids=["largest", "smallest"])
def test_rotation_about_an_outer_axis_is_stable(omega):
    sim = spinning_box(omega, dt=1 / 60, substeps=4)
    main = int(np.argmax(omega))
    for _ in range(1200):
        sim.step()
    final = in_body_axes(sim.state.body_q.numpy()[0, 3:], sim.state.body_qd.numpy()[0, 3:].astype(float))
    assert abs(final[main] - 20.0) < 0.02
    assert np.abs(np.delete(final, main)).max() < 0.2


def test_body_qd_is_the_velocity_of_the_centre_of_mass():
    b = ModelBuilder(gravity=0.0)
    body = b.add_body(angular_velocity=(0.0, 0.0, 2.0))
    b.add_shape_box(body, xform=((1.0, 0.0, 0.0), ONE), hx=0.2, hy=0.2, hz=0.2)
    dt = math.pi / 4 / 200
    sim = Simulation(b.finalize(), dt=dt)
    for _ in range(200):
        sim.step()
    assert np.allclose(sim.state.body_q.numpy()[0, :3], (1.0, -1.0, 0.0), atol=1e-3)
    assert np.allclose(sim.state.body_qd.numpy()[0], (0, 0, 0, 0, 0, 2), atol=1e-5)


def test_applied_force_and_torque_act_for_one_step():
    b = ModelBuilder(gravity=0.0)
    body = b.add_body(mass=2.0, inertia=(0.3, 0.2, 0.4))
    sim = Simulation(b.finalize(), dt=0.01)
    sim.state.body_f.assign(np.array([[4.0, 0.0, 0.0, 0.0, 0.0, 0.8]], np.float32))
    sim.step()
    assert np.allclose(sim.state.body_qd.numpy()[body], (0.02, 0, 0, 0, 0, 0.02), atol=1e-6)
    assert not sim.state.body_f.numpy().any()
    sim.step()
    assert np.allclose(sim.state.body_qd.numpy()[body], (0.02, 0, 0, 0, 0, 0.02), atol=1e-6)


def test_kinematic_body_moves_by_its_velocity_alone():
    b = ModelBuilder(gravity=-G)
    body = b.add_body(linear_velocity=(1.0, 0.0, 0.0), angular_velocity=(0.0, 0.0, math.pi), kinematic=True)
    b.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1)
    sim = Simulation(b.finalize(), dt=1 / 60)
    for _ in range(30):
        sim.step()
    assert np.allclose(sim.state.body_q.numpy()[body, :3], (0.5, 0.0, 0.0), atol=1e-5)
    assert np.allclose(sim.state.body_q.numpy()[body, 3:], (0, 0, math.sqrt(0.5), math.sqrt(0.5)), atol=1e-5)
    assert np.allclose(sim.state.body_qd.numpy()[body], (1, 0, 0, 0, 0, math.pi))
