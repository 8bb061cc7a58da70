"""Friction, restitution and stacks against closed forms."""

import math

import numpy as np
import pytest

from engine.sim.builder import ModelBuilder
from engine.sim.simulation import Simulation

G = 9.81
ONE = (0.0, 0.0, 0.0, 1.0)


def about_y(angle):
    return (0.0, math.sin(angle / 2), 0.0, math.cos(angle / 2))


def on_incline(slope, mu):
    """A box at rest on a plane that falls towards +x by `slope`."""
    b = ModelBuilder(up_axis="z", gravity=-G)
    b.add_shape_plane(-1, ((0.0, 0.0, 0.0), about_y(slope)), mu=mu)
    normal = np.array([math.sin(slope), 0.0, math.cos(slope)])
    body = b.add_body(xform=(0.1 * normal, about_y(slope)))
    b.add_shape_box(body, hx=0.2, hy=0.2, hz=0.1, density=1000.0, mu=mu)
    return Simulation(b.finalize(), dt=1 / 240)


def seconds(sim, time):
    for _ in range(round(time / sim.dt)):
        sim.step()


@pytest.mark.parametrize("mu", [0.3, 0.7])
def test_incline_holds_below_the_friction_angle_and_slips_above(mu):
    limit = math.atan(mu)
    for slope, slips in ((limit - math.radians(2), False), (limit + math.radians(2), True)):
        sim = on_incline(slope, mu)
        start = sim.state.body_q.numpy()[0, :3].copy()
        seconds(sim, 1.0)
        moved = float(np.linalg.norm(sim.state.body_q.numpy()[0, :3] - start))
        assert moved > 0.05 if slips else moved < 2e-3, f"{slope=} {moved=}"


@pytest.mark.parametrize("mu, degrees", [(0.2, 30.0), (0.5, 40.0)])
def test_incline_acceleration(mu, degrees):
    slope = math.radians(degrees)
    sim = on_incline(slope, mu)
    seconds(sim, 0.2)
    start, first = float(np.linalg.norm(sim.state.body_qd.numpy()[0, :3])), sim.time
    seconds(sim, 0.8)
    speed = float(np.linalg.norm(sim.state.body_qd.numpy()[0, :3]))
    assert (speed - start) / (sim.time - first) == pytest.approx(G * (math.sin(slope) - mu * math.cos(slope)), rel=0.01)


@pytest.mark.parametrize("mu, distance", [(0.2, 1.019368), (0.4, 0.509684), (0.7, 0.291248)])
def test_sliding_box_stops_after_v2_over_2_mu_g(mu, distance):
    b = ModelBuilder(up_axis="z", gravity=-G)
    b.add_ground_plane(mu=mu)
    body = b.add_body(xform=((0.0, 0.0, 0.05), ONE), linear_velocity=(2.0, 0.0, 0.0))
    b.add_shape_box(body, hx=0.2, hy=0.2, hz=0.05, density=1000.0, mu=mu)
    sim = Simulation(b.finalize(), dt=1 / 240)
    seconds(sim, 2.0 / (mu * G) + 0.5)
    assert sim.state.body_q.numpy()[body, 0] == pytest.approx(distance, rel=0.01)
    assert np.abs(sim.state.body_qd.numpy()[body]).max() < 1e-3


def test_sliding_sphere_starts_to_roll():
    """From 2 m/s without spin, μ = .3: pure rolling at 5/7 of the speed after .194165 s and .332855 m."""
    b = ModelBuilder(up_axis="z", gravity=-G)
    b.add_ground_plane(mu=0.3)
    body = b.add_body(xform=((0.0, 0.0, 0.1), ONE), linear_velocity=(2.0, 0.0, 0.0))
    b.add_shape_sphere(body, radius=0.1, density=1000.0, mu=0.3)
    sim = Simulation(b.finalize(), dt=1 / 960)
    rolls = None
    while rolls is None:
        sim.step()
        v = sim.state.body_qd.numpy()[body]
        if v[0] - 0.1 * v[4] < 1e-3:
            rolls = sim.time, float(sim.state.body_q.numpy()[body, 0])
    assert rolls == pytest.approx((0.194165, 0.332855), rel=0.01)
    seconds(sim, 0.5)
    assert sim.state.body_qd.numpy()[body, 0] == pytest.approx(1.428571, rel=0.01)


@pytest.mark.parametrize("mu, degrees", [(0.5, 30.0)])
def test_sphere_rolls_down_an_incline(mu, degrees):
    """Without slip (μ ≥ 2/7 tan θ), a = 5/7 g sin θ."""
    slope = math.radians(degrees)
    b = ModelBuilder(up_axis="z", gravity=-G)
    b.add_shape_plane(-1, ((0.0, 0.0, 0.0), about_y(slope)), mu=mu)
    normal = np.array([math.sin(slope), 0.0, math.cos(slope)])
    body = b.add_body(xform=(0.1 * normal, ONE))
    b.add_shape_sphere(body, radius=0.1, density=1000.0, mu=mu)
    sim = Simulation(b.finalize(), dt=1 / 240)
    seconds(sim, 1.0)
    speed = float(np.linalg.norm(sim.state.body_qd.numpy()[body, :3]))
    assert speed == pytest.approx(5 / 7 * G * math.sin(slope) * sim.time, rel=0.01)


def test_rolling_and_torsional_friction_brake():
    """A sphere with rolling friction m_r brakes with 5/7 m_r g / R; one that spins on the spot with 5/2 m_t g / R²."""
    b = ModelBuilder(up_axis="z", gravity=-G)
    friction = {"mu": 0.8, "mu_rolling": 0.01, "mu_torsional": 0.004}
    b.add_ground_plane(**friction)
    for y in (0.0, 1.0):
        body = b.add_body(xform=((0.0, y, 0.1), ONE))
        b.add_shape_sphere(body, radius=0.1, density=1000.0, **friction)
    sim = Simulation(b.finalize(), dt=1 / 240)
    sim.state.body_qd.assign(np.array([[2, 0, 0, 0, 20, 0], [0, 0, 0, 0, 0, 20]], np.float32))
    seconds(sim, 0.5)
    qd = sim.state.body_qd.numpy()
    assert qd[0, 0] == pytest.approx(2.0 - 0.5 * 5 / 7 * 0.01 * G / 0.1, rel=0.01)
    assert qd[1, 5] == pytest.approx(20.0 - 0.5 * 5 / 2 * 0.004 * G / 0.1**2, rel=0.01)


@pytest.mark.parametrize("e", [0.5, 0.8])
def test_bounce_apexes(e):
    """From 1 m, apex n is e^(2n) m."""
    b = ModelBuilder(up_axis="z", gravity=-G)
    b.add_ground_plane(mu=0.0, restitution=e)
    body = b.add_body(xform=((0.0, 0.0, 1.1), ONE))
    b.add_shape_sphere(body, radius=0.1, density=1000.0, mu=0.0, restitution=e)
    sim = Simulation(b.finalize(), dt=1 / 960)
    apexes, height, rising = [], [1.0], False
    while len(apexes) < 2 and sim.time < 4.0:
        sim.step()
        z = float(sim.state.body_q.numpy()[body, 2]) - 0.1
        if rising and z < height[-1]:
            apexes.append(height[-1])
        rising = z > height[-1]
        height.append(z)
    assert apexes[0] == pytest.approx(e**2, rel=0.05)
    assert apexes[1] == pytest.approx(e**4, rel=0.05)


@pytest.mark.parametrize("m1, m2, e", [(1.0, 1.0, 1.0), (1.0, 3.0, 0.5), (5.0, 1.0, 0.8), (2.0, 1.0, 0.0)])
def test_head_on_collision(m1, m2, e):
    b = ModelBuilder(gravity=0.0)
    speed = 3.0
    for x, mass, v in ((-0.5, m1, speed), (0.0, m2, 0.0)):
        body = b.add_body(xform=((x, 0.0, 0.0), ONE), linear_velocity=(v, 0.0, 0.0), mass=mass)
        b.add_shape_sphere(body, radius=0.1, restitution=e, mu=0.0)
    sim = Simulation(b.finalize(), dt=1 / 240)
    seconds(sim, 0.3)
    v1, v2 = sim.state.body_qd.numpy()[:, 0]
    assert v1 == pytest.approx((m1 - e * m2) * speed / (m1 + m2), abs=1e-3 * speed)
    assert v2 == pytest.approx((1 + e) * m1 * speed / (m1 + m2), abs=1e-3 * speed)


def test_stack_of_ten_stands_still():
    """Ten unit cubes for 10 s: sink below 1 % per contact, drift below 1 mm."""
    b = ModelBuilder(up_axis="z", gravity=-G)
    b.add_ground_plane(mu=0.5)
    for i in range(10):
        body = b.add_body(xform=((0.0, 0.0, 0.5 + i), ONE))
        b.add_shape_box(body, hx=0.5, hy=0.5, hz=0.5, density=1000.0, mu=0.5)
    sim = Simulation(b.finalize(), dt=1 / 60)
    seconds(sim, 10.0)
    pose = sim.state.body_q.numpy()
    gaps = np.diff(pose[:, 2], prepend=-0.5)
    assert gaps.min() > 0.99
    assert np.abs(pose[:, :2]).max() < 1e-3
    assert np.abs(sim.state.body_qd.numpy()).max() < 1e-3


@pytest.mark.parametrize("past, falls", [(-0.02, False), (0.02, True)])
def test_block_overhang(past, falls):
    """Four blocks of length L reach L/2 (1 + 1/2 + 1/3 + 1/4) over the edge; 2 % more, and they fall."""
    length, count = 1.0, 4
    b = ModelBuilder(up_axis="z", gravity=-G)
    b.add_shape_box(-1, ((-1.0, 0.0, -0.5), ONE), hx=1.0, hy=0.5, hz=0.5, mu=0.8)  # its edge is at x = 0
    for i in range(count):  # from the top: block i reaches 1/(2(i+1)) past the one below it
        reach = (1 + past) * sum(length / (2 * (j + 1)) for j in range(i, count))
        body = b.add_body(xform=((reach - length / 2, 0.0, 0.1 * (count - 1 - i) + 0.05), ONE))
        b.add_shape_box(body, hx=length / 2, hy=0.2, hz=0.05, density=500.0, mu=0.8)
    sim = Simulation(b.finalize(), dt=1 / 240)
    seconds(sim, 2.0)
    lowest = float(sim.state.body_q.numpy()[:, 2].min())
    assert (lowest < 0.0) == falls, f"{lowest=}"


def test_heavy_on_light():
    """100 kg on 1 kg, 4 s: no penetration above 5 % of the size, still in place."""
    b = ModelBuilder(up_axis="z", gravity=-G)
    for z, mass in ((0.5, 1.0), (1.5, 100.0)):
        body = b.add_body(xform=((0.0, 0.0, z), ONE))
        b.add_shape_box(body, hx=0.5, hy=0.5, hz=0.5, density=mass, mu=0.6)
    b.add_ground_plane()
    sim = Simulation(b.finalize(), dt=1 / 60)
    seconds(sim, 4.0)
    pose = sim.state.body_q.numpy()
    assert max(0.5 - pose[0, 2], 1.0 - (pose[1, 2] - pose[0, 2])) < 0.05
    assert np.abs(pose[:, :2]).max() < 0.01


def test_every_contact_of_a_crowd_is_kept():
    """400 boxes at rest make 1600 points and none sinks."""
    b = ModelBuilder(up_axis="z", gravity=-G)
    for i in range(400):
        body = b.add_body(xform=((1.5 * (i % 20), 1.5 * (i // 20), 0.5), ONE))
        b.add_shape_box(body, hx=0.5, hy=0.5, hz=0.5, density=1000.0)
    b.add_ground_plane()
    sim = Simulation(b.finalize(), dt=1 / 60)
    seconds(sim, 0.25)
    assert sim.contacts.count == 1600
    assert np.abs(sim.state.body_q.numpy()[:, 2] - 0.5).max() < 0.005
    weight = 1000.0 * G
    assert np.bincount(sim.contacts.shape0, sim.contacts.impulse[:, 0])[:400] == pytest.approx(
        np.full(400, weight / 60), rel=0.02
    ) or np.bincount(sim.contacts.shape1, sim.contacts.impulse[:, 0])[:400] == pytest.approx(
        np.full(400, weight / 60), rel=0.02
    )
