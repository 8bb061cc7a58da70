"""Pendulums and other jointed bodies against closed forms and high-accuracy integration."""

import math

import numpy as np
import pytest

from engine.sim.builder import ModelBuilder
from engine.sim.simulation import Simulation

G = 9.81
ONE = (0.0, 0.0, 0.0, 1.0)
POINT = (1e-6, 1e-6, 1e-6)  # inertia of a mass point, kg·m², next to m L² = 1


def about_y(angle):
    """The rotation that takes "straight down" to `angle` from down, towards +x."""
    return (0.0, math.sin(-angle / 2), 0.0, math.cos(-angle / 2))


def angle_of(q):
    """Angle from down of a link whose rotation is about y."""
    return -2 * math.atan2(q[1], q[3])


def pendulum(angle, inertia=POINT, length=1.0, dt=1 / 240, substeps=4, joint="revolute"):
    """One kilogram at `length` below a pivot at the origin, held at `angle`. Body frame at the centre of mass."""
    b = ModelBuilder(up_axis="z", gravity=-G)
    body = b.add_body(xform=((length * math.sin(angle), 0.0, -length * math.cos(angle)), about_y(angle)), mass=1.0,
                      inertia=inertia)  # fmt: skip
    if joint == "revolute":
        b.add_joint_revolute(-1, body, child_xform=((0.0, 0.0, length), ONE), axis="y")
    else:
        b.add_joint_ball(-1, body, child_xform=((0.0, 0.0, length), ONE))
    return Simulation(b.finalize(), dt=dt, substeps=substeps)


def half_period(sim, limit):
    """Time between two crossings of the lowest point, interpolated."""
    crossings, before = [], angle_of(sim.state.body_q.numpy()[0, 3:])
    while len(crossings) < 2 and sim.time < limit:
        sim.step()
        now = angle_of(sim.state.body_q.numpy()[0, 3:])
        if before * now < 0 and abs(now) < 1.0:
            crossings.append(sim.time - sim.dt * abs(now) / (abs(now) + abs(before)))
        before = now
    return crossings[1] - crossings[0]


@pytest.mark.parametrize("joint", ["revolute", "ball"])
@pytest.mark.parametrize(
    "angle, period", [(0.05, 2.00638), (1.0, 2.139138), (math.pi / 2, 2.367842), (math.radians(170), 4.893524)]
)
def test_pendulum_period(angle, period, joint):
    assert 2 * half_period(pendulum(angle, joint=joint), 6.0) == pytest.approx(period, rel=0.005)


def test_compound_pendulum_period():
    """A uniform rod of 1 m about its end swings with 2π √(2L / 3g)."""
    rod = (1 / 12, 1 / 12, 1e-4)
    sim = pendulum(0.02, inertia=rod, length=0.5)
    assert 2 * half_period(sim, 3.0) == pytest.approx(1.6379, rel=0.005)


@pytest.mark.parametrize("dt", [1 / 60, 1 / 240])
def test_pendulum_keeps_its_energy(dt):
    """From 1 rad, 10 s: less than .5 % drift per 2 s, as the mean over a period, so that what swings cancels out."""
    sim = pendulum(1.0, dt=dt)
    lowest = -1.0
    energies = []
    for _ in range(round(10 / dt)):
        sim.step()
        height, velocity = sim.state.body_q.numpy()[0, 2], sim.state.body_qd.numpy()[0].astype(float)
        energies.append(0.5 * velocity[:3] @ velocity[:3] + G * (height - lowest))
    period = round(2.139138 / dt)
    means = np.convolve(energies, np.full(period, 1 / period), mode="valid")
    assert abs(energies[0] - G * (1 - math.cos(1.0))) < 0.01 * energies[0]
    drift = np.abs(means[round(2 / dt) :] - means[: -round(2 / dt)]) / energies[0]
    assert drift.max() < 0.005


def double_pendulum(dt, substeps):
    """Two mass points on massless rods of 1 m, both horizontal and at rest."""
    b = ModelBuilder(up_axis="z", gravity=-G)
    links = [b.add_body(xform=((x, 0.0, 0.0), about_y(math.pi / 2)), mass=1.0, inertia=POINT) for x in (1.0, 2.0)]
    b.add_joint_revolute(-1, links[0], child_xform=((0.0, 0.0, 1.0), ONE), axis="y")
    b.add_joint_revolute(links[0], links[1], child_xform=((0.0, 0.0, 1.0), ONE), axis="y")
    return Simulation(b.finalize(), dt=dt, substeps=substeps)


def link_state(sim):
    """(θ1, θ2, ω1, ω2) of the double pendulum, from the links' positions, which cannot wind up."""
    p, v = sim.state.body_q.numpy()[:, :3].astype(float), sim.state.body_qd.numpy()[:, :3].astype(float)
    d, u = np.diff(p, axis=0, prepend=np.zeros((1, 3))), np.diff(v, axis=0, prepend=np.zeros((1, 3)))
    theta = np.arctan2(d[:, 0], -d[:, 2])
    omega = u[:, 0] * np.cos(theta) + u[:, 2] * np.sin(theta)
    return np.concatenate([theta, omega])


def test_double_pendulum_to_two_seconds():
    """Against an integration of high accuracy, at time steps of 1e-4 s."""
    sim = double_pendulum(dt=1e-3, substeps=10)
    expected = {1.0: ((-0.6250877, -1.0345851, -3.9222796, -1.3030992), 1e-3),
                2.0: ((-0.4829715, -1.3240487, 3.0652882, 2.9492715), 1e-2)}  # fmt: skip
    for time, (values, tolerance) in expected.items():
        while sim.frame < round(time / sim.dt):
            sim.step()
        assert np.abs(link_state(sim) - values).max() < tolerance * max(1.0, np.abs(values).max()), link_state(sim)


def test_two_jointed_bodies_keep_momentum():
    """Without gravity, linear and angular momentum of two bodies on a ball joint stay the same."""
    b = ModelBuilder(gravity=0.0)
    first = b.add_body(
        xform=((-0.5, 0.0, 0.0), ONE), angular_velocity=(1.0, 2.0, -1.0), mass=1.0, inertia=(0.1, 0.2, 0.25)
    )
    second = b.add_body(xform=((0.5, 0.0, 0.0), ONE), mass=3.0, inertia=(0.3, 0.2, 0.4))
    b.add_joint_ball(first, second, ((0.5, 0.0, 0.0), ONE), ((-0.5, 0.0, 0.0), ONE))
    sim = Simulation(b.finalize(), dt=1 / 240)
    mass, inertia = np.array([1.0, 3.0]), [np.diag([0.1, 0.2, 0.25]), np.diag([0.3, 0.2, 0.4])]

    def momenta():
        q, qd = sim.state.body_q.numpy().astype(float), sim.state.body_qd.numpy().astype(float)
        turn = [rotation(q[i, 3:]) for i in range(2)]
        p = (mass[:, None] * qd[:, :3]).sum(axis=0)
        l = sum(
            np.cross(q[i, :3], mass[i] * qd[i, :3]) + turn[i] @ inertia[i] @ turn[i].T @ qd[i, 3:] for i in range(2)
        )
        return np.concatenate([p, l])

    sim.step()  # the joint makes the velocities consistent
    start = momenta()
    for _ in range(480):
        sim.step()
    scale = np.linalg.norm(start)
    assert np.abs(momenta() - start)[:3].max() < 5e-4 * scale
    assert abs(np.linalg.norm(momenta()[3:]) / np.linalg.norm(start[3:]) - 1) < 5e-3


def test_heavy_top_precesses():
    """A disc on a ball joint, spin 200 rad/s, tilted by 30°: steady slow precession of .991674 rad/s."""
    spin, tilt, rate = 200.0, math.radians(30), 0.991674
    b = ModelBuilder(up_axis="z", gravity=-G)
    turn = (0.0, math.sin(tilt / 2), 0.0, math.cos(tilt / 2))
    axis = np.array([math.sin(tilt), 0.0, math.cos(tilt)])
    # the angular velocity of steady precession: spin about the axis, which turns about z
    omega = axis * (spin - rate * math.cos(tilt)) + np.array([0.0, 0.0, rate])
    disc = b.add_body(xform=(0.1 * axis, turn), linear_velocity=np.cross(omega, 0.1 * axis), angular_velocity=omega,
                      mass=1.0, inertia=(0.012533 - 0.01, 0.012533 - 0.01, 0.005))  # fmt: skip
    b.add_joint_ball(-1, disc, None, ((0.0, 0.0, -0.1), ONE))
    sim = Simulation(b.finalize(), dt=1 / 240, substeps=8)
    azimuth = []
    for _ in range(480):
        sim.step()
        p = sim.state.body_q.numpy()[0, :3]
        azimuth.append(math.atan2(p[1], p[0]))
        assert abs(math.acos(p[2] / np.linalg.norm(p)) - tilt) < 0.04  # it sinks slowly, in first order of the substep
    turned = np.unwrap(azimuth)
    assert (turned[-1] - turned[0]) / (479 * sim.dt) == pytest.approx(rate, rel=0.02)


def rotation(q):
    x, y, z, w = q
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ])  # fmt: skip
