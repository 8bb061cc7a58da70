"""Each joint type: what it locks, what it leaves free, its coordinates, limits, drives and friction."""

import math

import numpy as np
import pytest

from engine.sim.builder import ModelBuilder
from engine.sim.builder_records import JointDof
from engine.sim.simulation import Simulation

G = 9.81
ONE = (0.0, 0.0, 0.0, 1.0)
TWIST = (0.3, -0.4, 0.5, 0.7, -0.6, 0.8)  # velocity that every dof has a share of


def pair(gravity=0.0, **options):
    """Two different bodies, 1 m apart along x, the first fixed to the world by a joint of the test."""
    b = ModelBuilder(up_axis="z", gravity=-gravity)
    child = b.add_body(xform=((1.0, 0.0, 0.0), ONE), mass=2.0, inertia=(0.2, 0.3, 0.4), **options)
    return b, child


def relative_pose(sim, joint):
    """(offset, quaternion) of the child's joint frame in the parent's."""
    m = sim.model
    frames = []
    for body, local in ((m.joint_parent, m.joint_xform_p), (m.joint_child, m.joint_xform_c)):
        i, x = int(body.numpy()[joint]), local.numpy()[joint].astype(float)
        q = sim.state.body_q.numpy()[i].astype(float) if i >= 0 else np.array([0, 0, 0, 0, 0, 0, 1.0])
        frames.append((q[:3] + rotate(q[3:], x[:3]), multiply(q[3:], x[3:])))
    (p0, q0), (p1, q1) = frames
    return rotate(conjugate(q0), p1 - p0), multiply(conjugate(q0), q1)


def conjugate(q):
    return q * np.array([-1, -1, -1, 1])


def multiply(a, b):
    return np.append(a[3] * b[:3] + b[3] * a[:3] + np.cross(a[:3], b[:3]), a[3] * b[3] - a[:3] @ b[:3])


def rotate(q, v):
    return v + 2 * q[3] * np.cross(q[:3], v) + 2 * np.cross(q[:3], np.cross(q[:3], v))


def stepped(b, twist=TWIST, seconds=1.0, dt=1 / 240, moving=None):
    sim = Simulation(b.finalize(), dt=dt)
    qd = np.array(sim.state.body_qd.numpy())
    qd[-1 if moving is None else moving] = twist
    sim.state.body_qd.assign(qd)
    for _ in range(round(seconds / dt)):
        sim.step()
    return sim


FRAME = ((-1.0, 0.2, 0.1), (0.0, 0.0, math.sin(0.3), math.cos(0.3)))
IN_WORLD = ((0.0, 0.2, 0.1), FRAME[1])


@pytest.mark.parametrize("kind", ["fixed", "revolute", "prismatic", "ball"])
def test_locked_axes_stay_together(kind):
    b, child = pair()
    getattr(b, f"add_joint_{kind}")(-1, child, IN_WORLD, FRAME)
    sim = stepped(b)
    offset, turn = relative_pose(sim, 0)
    if kind == "prismatic":
        assert abs(offset[2]) > 0.1  # it slid along z of the joint frame
        offset[2] = 0.0
    assert np.abs(offset).max() < 1e-3
    angle = 2 * np.linalg.norm(turn[:3])
    if kind in ("fixed", "prismatic"):
        assert angle < 1e-3
    if kind == "revolute":
        assert np.abs(turn[:2]).max() < 1e-3 and abs(turn[2]) > 0.05


@pytest.mark.parametrize("kind", ["fixed", "revolute", "prismatic", "ball", "distance"])
def test_two_free_bodies_on_a_joint_keep_momentum(kind):
    b, child = pair()
    parent = b.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1))
    options = {"min_distance": 1.0, "max_distance": 1.0} if kind == "distance" else {}
    anchors = (None, None) if kind == "distance" else (((0.5, 0.0, 0.0), ONE), ((-0.5, 0.0, 0.0), ONE))
    getattr(b, f"add_joint_{kind}")(parent, child, *anchors, **options)
    sim = stepped(b, moving=child)
    momentum = np.array([2.0, 1.0])[:, None] * sim.state.body_qd.numpy()[:, :3]
    assert np.abs(momentum.sum(axis=0) - 2.0 * np.array(TWIST[:3])).max() < 1e-3


def test_revolute_coordinate_counts_turns():
    b, child = pair()
    b.add_joint_revolute(-1, child, None, ((-1.0, 0.0, 0.0), ONE), axis="z")
    sim = stepped(b, (0.0, 4.0, 0.0, 0.0, 0.0, 4.0), seconds=4.0)
    assert sim.state.joint_qd.numpy()[0] == pytest.approx(4.0, rel=1e-3)
    assert sim.state.joint_q.numpy()[0] == pytest.approx(16.0, rel=2e-3)


def test_prismatic_coordinate_and_effort():
    b, child = pair()
    b.add_joint_prismatic(-1, child, ((1.0, 0.0, 0.0), ONE), None, axis="x")
    sim = Simulation(b.finalize(), dt=1 / 240)
    sim.control.joint_f.assign(np.array([4.0], np.float32))
    for _ in range(240):
        sim.step()
    assert sim.state.joint_qd.numpy()[0] == pytest.approx(2.0, rel=1e-3)  # 4 N on 2 kg for 1 s
    assert sim.state.joint_q.numpy()[0] == pytest.approx(1.0, rel=5e-3)


def test_ball_coordinate_is_the_relative_rotation():
    b, child = pair()
    b.add_joint_ball(-1, child, None, ((-1.0, 0.0, 0.0), ONE))
    sim = stepped(b, (0.0, 1.0, 0.0, 0.0, 0.0, 1.0))
    assert np.abs(sim.state.joint_q.numpy()) == pytest.approx((0, 0, math.sin(0.5), math.cos(0.5)), abs=2e-3)
    assert sim.state.joint_qd.numpy() == pytest.approx((0, 0, 1), abs=2e-3)


def test_rope_and_rod():
    for shortest, longest in ((None, 1.0), (1.0, 1.0)):
        b, child = pair(gravity=G)
        b.add_joint_distance(-1, child, None, None, min_distance=shortest, max_distance=longest)
        sim = stepped(b, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0), seconds=2.0)
        assert np.linalg.norm(sim.state.body_q.numpy()[0, :3]) == pytest.approx(1.0, abs=2e-3)
        assert sim.state.joint_q.numpy()[0] == pytest.approx(1.0, abs=2e-3)


def test_spring_of_a_distance_joint_has_its_static_length():
    b, child = pair(gravity=G)
    b.add_joint_distance(-1, child, ((1.0, 0.0, 1.0), ONE), None, target_pos=1.0, target_ke=200.0, target_kd=20.0)
    sim = stepped(b, (0.0,) * 6, seconds=6.0)
    assert sim.state.joint_q.numpy()[0] == pytest.approx(1.0 + 2.0 * G / 200.0, abs=1e-4)


def arm(**dof):
    """1 kg, its centre of mass .5 m out along x on a hinge about y; gravity pulls it down, towards positive angles."""
    b = ModelBuilder(up_axis="z", gravity=-G)
    body = b.add_body(mass=1.0, com=(0.5, 0.0, 0.0), inertia=(0.01, 0.01, 0.01))
    b.add_joint_revolute(-1, body, axis="y", **dof)
    return b


def test_drive_sags_by_its_stiffness():
    """28.6479 N·m/rad: 28.6479 a = 9.81 · .5 · cos a at a = .168786 rad."""
    sim = stepped(arm(target_ke=28.6479, target_kd=2.86), (0.0,) * 6, seconds=6.0)
    assert sim.state.joint_q.numpy()[0] == pytest.approx(0.168786, abs=1e-4)


def test_stiff_drive_is_stable_and_reaches_its_target():
    sim = stepped(arm(target_ke=1e6, target_kd=1e4, target_pos=-0.5), (0.0,) * 6, seconds=2.0)
    assert sim.state.joint_q.numpy()[0] == pytest.approx(-0.5, abs=1e-3)


def test_velocity_drive():
    b, child = pair()
    b.add_joint_revolute(-1, child, None, ((-1.0, 0.0, 0.0), ONE), axis="z", target_vel=3.0, target_kd=1e3)
    sim = stepped(b, (0.0,) * 6, seconds=1.0)
    assert sim.state.joint_qd.numpy()[0] == pytest.approx(3.0, rel=1e-3)


def test_drive_is_not_stronger_than_its_limit():
    """9.81 · .5 = 4.905 N·m hold the arm level: 6 are enough, 4 are not."""
    for effort, holds in ((6.0, True), (4.0, False)):
        sim = stepped(arm(target_ke=1e4, target_kd=1e2, effort_limit=effort), (0.0,) * 6, seconds=1.0)
        assert (abs(sim.state.joint_q.numpy()[0]) < 0.01) == holds


def test_joint_friction():
    """Friction of 6 N·m holds the arm; 2 N·m brake it."""
    sim = stepped(arm(friction=6.0), (0.0,) * 6, seconds=1.0)
    assert abs(sim.state.joint_q.numpy()[0]) < 1e-3
    b, child = pair()
    b.add_joint_revolute(-1, child, None, ((-1.0, 0.0, 0.0), ONE), axis="z", friction=1.2)
    sim = stepped(b, (0.0, 1.0, 0.0, 0.0, 0.0, 1.0), seconds=1.0)  # inertia about the hinge: 2 · 1² + .4 = 2.4
    assert sim.state.joint_qd.numpy()[0] == pytest.approx(0.5, rel=0.01)


@pytest.mark.parametrize("kind", ["revolute", "prismatic"])
def test_limits_stop_the_joint(kind):
    if kind == "revolute":
        b = arm(limit_lower=-1.0, limit_upper=math.radians(60))
        expected = math.radians(60)
    else:
        b, child = pair(gravity=G)
        b.add_joint_prismatic(-1, child, ((1.0, 0.0, 0.0), ONE), None, axis="z", limit_lower=-0.3, limit_upper=1.0)
        expected = -0.3
    sim = stepped(b, (0.0,) * 6, seconds=4.0)
    assert sim.state.joint_q.numpy()[0] == pytest.approx(expected, abs=2e-3)
    assert abs(sim.state.joint_qd.numpy()[0]) < 1e-3


def test_cone_limits_the_swing_of_a_ball_joint():
    b = ModelBuilder(up_axis="z", gravity=-G)
    body = b.add_body(mass=1.0, com=(0.0, 0.0, 0.5), inertia=(0.01, 0.01, 0.01), angular_velocity=(0.3, 0.2, 0.0))
    b.add_joint_ball(-1, body, cone_upper=0.6)
    sim = stepped(b, (0.1, -0.15, 0.0, 0.3, 0.2, 0.0), seconds=4.0)
    z = rotate(sim.state.body_q.numpy()[0, 3:].astype(float), np.array([0.0, 0.0, 1.0]))
    assert math.acos(z[2]) == pytest.approx(0.6, abs=0.01)


def test_d6_with_two_angular_axes_is_a_universal_joint():
    """It passes rotation on about the third axis and is free about the other two."""
    b, child = pair()
    b.add_joint_d6(-1, child, None, ((-1.0, 0.0, 0.0), ONE), angular_axes=(JointDof(axis="y"), JointDof(axis="z")))
    sim = stepped(b, (0.0, 0.5, 0.4, 2.0, 0.0, 0.0), seconds=0.5)
    offset, turn = relative_pose(sim, 0)
    y, z = sim.state.joint_q.numpy()
    expected = multiply(
        np.array([0, math.sin(y / 2), 0, math.cos(y / 2)]), np.array([0, 0, math.sin(z / 2), math.cos(z / 2)])
    )
    assert np.abs(offset).max() < 1e-3
    assert abs(abs(turn @ expected) - 1) < 1e-5
    assert abs(z) > 0.1


def test_several_joints_on_one_body_and_a_loop():
    """A four-bar of unit links, one side fixed to the world: it stays a parallelogram while it swings."""
    b = ModelBuilder(up_axis="z", gravity=-G)
    places = ((0.0, -0.5, True), (0.5, -1.0, False), (1.0, -0.5, True))  # crank, coupler, rocker
    links = [b.add_body(xform=((x, 0.0, z), ONE), mass=1.0, inertia=(0.1, 0.1, 0.1)) for x, z, _ in places]
    b.add_joint_revolute(-1, links[0], None, ((0.0, 0.0, 0.5), ONE), axis="y")
    b.add_joint_revolute(links[0], links[1], ((0.0, 0.0, -0.5), ONE), ((-0.5, 0.0, 0.0), ONE), axis="y")
    b.add_joint_revolute(links[1], links[2], ((0.5, 0.0, 0.0), ONE), ((0.0, 0.0, -0.5), ONE), axis="y")
    b.add_joint_revolute(-1, links[2], ((1.0, 0.0, 0.0), ONE), ((0.0, 0.0, 0.5), ONE), axis="y")
    sim = Simulation(b.finalize(), dt=1 / 240)
    qd = np.zeros((3, 6), np.float32)
    qd[[0, 2], 0], qd[[0, 2], 4], qd[1, 0] = -0.5, 1.0, -1.0
    sim.state.body_qd.assign(qd)
    for _ in range(480):
        sim.step()
        angles = 2 * np.arctan2(sim.state.body_q.numpy()[:, 4], sim.state.body_q.numpy()[:, 6])
        assert abs(angles[0] - angles[2]) < 2e-3 and abs(angles[1]) < 2e-3


@pytest.mark.parametrize("inertia", [1e-1, 1e-2, 1e-4])
def test_drives_and_limits_do_not_care_how_small_the_inertia_about_the_centre_is(inertia):
    """1 kg on an arm of 1 m: a velocity drive, a position drive and a limit, each next to their exact result."""
    b = ModelBuilder(up_axis="z", gravity=-G)
    for options in (
        {"axis": "z", "target_vel": 3.0, "target_kd": 1e3},
        {"axis": "y", "target_ke": 1e3, "target_kd": 1e2},
        {"axis": "y", "limit_upper": 0.0},
    ):
        body = b.add_body(xform=((1.0, 0.0, 0.0), ONE), mass=1.0, inertia=(inertia,) * 3)
        b.add_joint_revolute(-1, body, None, ((-1.0, 0.0, 0.0), ONE), **options)
    sim = Simulation(b.finalize(), dt=1 / 60)
    sim.step()
    assert sim.state.joint_qd.numpy()[0] == pytest.approx(3.0, rel=5e-3)
    for _ in range(120):
        sim.step()
    assert sim.state.joint_qd.numpy()[0] == pytest.approx(3.0, rel=1e-3)
    assert sim.state.joint_q.numpy()[1] == pytest.approx(G / 1e3, rel=1e-3)
    assert sim.state.joint_q.numpy()[2] == pytest.approx(0.0, abs=2e-4)


def test_a_rope_bridge_of_planks_hangs():
    """Two ball joints at each end of each plank: redundant constraints in loops come to rest."""
    b = ModelBuilder(up_axis="z", gravity=-G)
    before, count = -1, 12
    for i in range(count + 1):
        plank = b.add_body(xform=((i + 0.5, 0.0, 0.0), ONE)) if i < count else -1
        if plank >= 0:
            b.add_shape_box(plank, hx=0.48, hy=0.5, hz=0.05, density=500.0, collide=False)
        for side in (-0.5, 0.5):
            ends = [((x, side, 0.0), ONE) for x in ((0.5, -0.5) if before >= 0 else (0.0, -0.5))]
            ends = [((0.5, side, 0.0), ONE), ((count - 0.5, side, 0.0), ONE)] if plank < 0 else ends
            b.add_joint_ball(before, plank, *ends)
        before = plank
    sim = Simulation(b.finalize(), dt=1 / 60)
    for _ in range(600):
        sim.step()
    assert np.abs(sim.state.body_qd.numpy()).max() < 1.0
    assert -3.0 < sim.state.body_q.numpy()[:, 2].min() < -0.1


def test_a_heavy_arm_on_a_light_base_that_is_fixed_to_the_world():
    """51 kg on a base of 1 kg and 1.5e-3 kg·m²: the base stands still and the drive holds the arm at its static sag."""
    b = ModelBuilder(up_axis="z", gravity=-G)
    base = b.add_body(mass=1.0, inertia=(0.0015, 0.0015, 0.0015))
    arm = b.add_body(xform=((0.5, 0.0, 0.0), ONE), mass=51.0, inertia=(2.7, 2.7, 5.4))
    b.add_joint_revolute(base, arm, None, ((-0.5, 0.0, 0.0), ONE), axis="y", target_ke=5730.0, target_kd=573.0)
    b.add_joint_fixed(-1, base)
    sim = stepped(b, (0.0,) * 6, seconds=3.0, dt=1 / 60)
    sag = sim.state.joint_q.numpy()[0]
    assert 5730.0 * sag == pytest.approx(51.0 * G * 0.5 * math.cos(sag), rel=1e-3)
    assert np.array_equal(sim.state.body_q.numpy()[base], sim.model.body_q.numpy()[base])


def test_a_fixed_joint_pulls_together_what_starts_apart():
    b, child = pair()
    b.add_joint_fixed(-1, child, ((1.05, 0.0, 0.0), ONE))
    sim = stepped(b, (0.0,) * 6, seconds=1.0)
    assert sim.state.body_q.numpy()[0, :3] == pytest.approx((1.05, 0.0, 0.0), abs=1e-4)


def test_a_kinematic_body_drags_what_is_jointed_to_it():
    b = ModelBuilder(gravity=0.0)
    mover = b.add_body(kinematic=True, linear_velocity=(1.0, 0.0, 0.0))
    follower = b.add_body(xform=((0.0, 0.0, -1.0), ONE), mass=1.0, inertia=(0.1, 0.1, 0.1))
    b.add_joint_fixed(mover, follower, ((0.0, 0.0, -1.0), ONE))
    sim = stepped(b, (0.0,) * 6, seconds=1.0)
    assert np.allclose(sim.state.body_q.numpy()[:, 0], 1.0, atol=2e-3)
    assert np.allclose(sim.state.body_qd.numpy()[1], (1, 0, 0, 0, 0, 0), atol=1e-3)
    assert np.allclose(sim.state.body_qd.numpy()[0], (1, 0, 0, 0, 0, 0))


def test_disabled_and_free_joints_do_nothing():
    b, child = pair()
    b.add_joint_fixed(-1, child, ((1.0, 0.0, 0.0), ONE), enabled=False)
    b.add_joint_free(-1, child)
    sim = stepped(b, (1.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    assert sim.state.body_q.numpy()[0, 0] == pytest.approx(2.0, abs=1e-4)
