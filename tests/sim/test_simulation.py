"""Simulation: arguments, frames, the view of the contacts, errors, reset, saving and restoring to the same bits."""

import numpy as np
import pytest

import engine
from engine.config import config
from engine.context import ScopedCapture
from engine.errors import CaptureError, Error, SimulationError
from engine.sim.builder import ModelBuilder
from engine.sim.simulation import Simulation, restore

G = 9.81
ONE = (0.0, 0.0, 0.0, 1.0)


def heap(count=12, restitution=0.0):
    b = ModelBuilder(up_axis="z", gravity=-G)
    b.add_ground_plane(mu=0.5)
    for i in range(count):
        body = b.add_body(xform=((0.3 * (i % 3), 0.25 * (i % 2), 0.6 + 1.05 * i), ONE), label=f"box{i}")
        b.add_shape_box(body, hx=0.5, hy=0.5, hz=0.5, density=1000.0, mu=0.5, restitution=restitution)
    return b.finalize()


@pytest.mark.parametrize(
    "options", [{"dt": 0.0}, {"dt": float("nan")}, {"dt": -1.0}, {"substeps": 0}, {"substeps": 2.5}, {"iterations": 0}]
)
def test_impossible_numbers_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Simulation(heap(1), **options)


def test_unknown_solver_is_refused():
    with pytest.raises(Error, match="soft_step"):
        Simulation(heap(1), solver="soft_stp")


def test_arrays_keep_their_identity_and_time_counts():
    sim = Simulation(heap(3), dt=1 / 100)
    pose = sim.state.body_q
    for _ in range(50):
        sim.step()
    assert sim.state.body_q is pose
    assert sim.frame == 50 and sim.time == pytest.approx(0.5)


def test_run_shows_the_start_pose_first():
    sim = Simulation(heap(1), dt=1 / 60)
    frames = []
    sim.run(5, on_frame=lambda s: frames.append(s.frame))
    assert frames == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="frames"):
        sim.run(-1)


def test_contacts_of_a_box_at_rest():
    b = ModelBuilder(up_axis="z", gravity=-G)
    ground = b.add_ground_plane(mu=0.5)
    body = b.add_body(xform=((0.0, 0.0, 0.5), ONE))
    box = b.add_shape_box(body, hx=0.5, hy=0.5, hz=0.5, density=1000.0)
    sim = Simulation(b.finalize(), dt=1 / 60)
    for _ in range(60):
        sim.step()
    c = sim.contacts
    assert c.count == len(c) == 4
    assert set(np.stack([c.shape0, c.shape1], axis=1).ravel()) == {ground, box}
    up = 1.0 if ground < box else -1.0
    assert np.allclose(c.normal, (0, 0, up), atol=1e-6)
    assert np.allclose(np.sort(np.abs(c.point.numpy()[:, :2]), axis=None), 0.5, atol=1e-3)
    assert c.impulse.shape == (4, 3)
    assert c.impulse[:, 0].sum() == pytest.approx(1000.0 * G / 60, rel=1e-3)
    assert np.abs(c.impulse[:, 1:]).max() < 1.0
    assert np.abs(c.depth).max() < 0.005
    stats = sim.stats
    assert (stats.frame, stats.bodies, stats.manifolds, stats.contacts) == (60, 1, 1, 4)
    assert stats.largest_penetration < 0.005
    assert {"step", "collide", "solve", "relax"} <= stats.timings.keys()


def test_before_the_first_step_there_is_nothing_to_see():
    sim = Simulation(heap(2))
    assert sim.contacts.count == 0 and sim.contacts.depth.shape == (0,) and sim.contacts.impulse.shape == (0, 3)
    assert (sim.stats.frame, sim.stats.contacts, sim.stats.largest_penetration) == (0, 0, 0.0)


def test_nan_names_body_field_and_frame():
    sim = Simulation(heap(4), dt=1 / 60)
    for _ in range(3):
        sim.step()
    qd = np.array(sim.state.body_qd.numpy())
    qd[2, 1] = np.nan
    sim.state.body_qd.assign(qd)
    with pytest.raises(SimulationError) as raised:
        sim.step()
    assert (raised.value.body, raised.value.field, raised.value.frame) == ("box2", "body_qd", 3)


def test_a_sensor_reports_and_does_not_push():
    b = ModelBuilder(up_axis="z", gravity=-G)
    b.add_ground_plane(sensor=True)
    body = b.add_body(xform=((0.0, 0.0, 0.2), ONE))
    b.add_shape_sphere(body, radius=0.1)
    sim = Simulation(b.finalize(), dt=1 / 60)
    for _ in range(30):
        sim.step()
    assert sim.state.body_q.numpy()[0, 2] < -0.5


def test_reset_starts_again_with_the_same_bits():
    sim = Simulation(heap(), dt=1 / 60)
    hashes = []
    for _ in range(2):
        for _ in range(90):
            sim.step()
        hashes.append(sim.hash())
        sim.reset()
        assert sim.time == 0.0
        assert np.array_equal(sim.state.body_q.numpy(), sim.model.body_q.numpy())
    assert hashes[0] == hashes[1]


def test_reset_of_one_world_leaves_the_other():
    one = ModelBuilder(gravity=-G)
    body = one.add_body(xform=((0.0, 0.0, 1.0), ONE))
    one.add_shape_sphere(body, radius=0.1)
    b = ModelBuilder(up_axis="z", gravity=-G)
    b.replicate(one, 3, spacing=(1.0, 0.0, 0.0))
    sim = Simulation(b.finalize(), dt=1 / 60)
    for _ in range(10):
        sim.step()
    fallen = sim.state.body_q.numpy()[0, 2]
    sim.reset(np.array([False, True, False]))
    z = sim.state.body_q.numpy()[:, 2]
    assert z[1] == 1.0 and z[0] == z[2] == fallen < 1.0


def test_saved_simulation_continues_to_the_same_bits(tmp_path):
    sim = Simulation(heap(restitution=0.3), dt=1 / 60, substeps=3)
    for _ in range(60):
        sim.step()
    sim.save(tmp_path / "half.npz")
    again = restore(tmp_path / "half.npz")
    assert (again.dt, again.substeps, again.frame) == (sim.dt, 3, 60)
    for _ in range(60):
        sim.step()
        again.step()
    assert again.hash() == sim.hash()


def test_capacity_grows_without_losing_a_contact():
    """More pairs than the contacts had room for: the step makes room and drops nothing."""
    b = ModelBuilder(up_axis="z", gravity=-G)
    b.add_ground_plane()
    for i in range(300):
        body = b.add_body(xform=((0.02 * (i % 7), 0.02 * (i % 5), 0.3 + 0.05 * i), ONE))
        b.add_shape_sphere(body, radius=0.2)
    sim = Simulation(b.finalize(), dt=1 / 240)
    before = sim.contact_table.count["npair"]
    for _ in range(5):
        sim.step()
    assert sim.contact_table.count["npair"] > before
    assert sim.stats.manifolds > 300
    assert np.isfinite(sim.state.body_q.numpy()).all()


def test_a_tape_that_is_done_leaves_frames_to_graphs():
    """Only a tape that records sees the launches of a frame one by one."""

    @engine.kernel
    def double(x: engine.array(dtype=float), y: engine.array(dtype=float)):
        i = engine.tid()
        y[i] = 2.0 * x[i]

    b = ModelBuilder(up_axis="z", gravity=-G)
    b.add_shape_sphere(b.add_body(xform=((0, 0, 1), ONE)), radius=0.5)
    sim = Simulation(b.finalize(), dt=1 / 60)
    x = engine.array([1.0], dtype=float, device="cpu", requires_grad=True)
    with engine.Tape() as tape:
        engine.launch(double, dim=1, inputs=[x, engine.zeros_like(x)], device="cpu")
        sim.step()
        assert sim._rest._graph is None
    sim.step()
    assert sim._rest._graph is not None and tape.entries


def test_a_step_is_captured_once_and_again_when_buffers_grow():
    """Frames are replayed; new pairs beyond the capacity and a first pair of another family lead to a new graph."""
    b = ModelBuilder(up_axis="z", gravity=-G)
    b.add_ground_plane(mu=0.5)
    for i in range(40):
        body = b.add_body(xform=((1.5 * (i % 7), 1.5 * (i // 7), 0.6 + 0.2 * i), ONE))
        if i % 3:
            b.add_shape_box(body, hx=0.5, hy=0.5, hz=0.5, density=1000.0, mu=0.5)
        else:
            b.add_shape_sphere(body, radius=0.5, density=1000.0, mu=0.5)
    model = b.finalize()
    hashes, graphs = [], []
    for switch in (True, False):
        with config.scope(graphs=switch):
            sim = Simulation(model, dt=1 / 60)
            for _ in range(150):
                sim.step()
                graphs.append(sim._rest._graph)
            hashes.append(sim.hash())
            assert sim.stats.contacts > 0 and {"step", "collide", "solve", "store"} <= sim.stats.timings.keys()
    captures = len(set(map(id, graphs[:150])))
    assert 1 < captures < 15 and not any(graphs[150:])
    assert hashes[0] == hashes[1]


def test_a_step_inside_a_capture_is_refused():
    sim = Simulation(heap(1))
    with pytest.raises(CaptureError, match="Simulation.step"), ScopedCapture():
        sim.step()
    sim.step()
