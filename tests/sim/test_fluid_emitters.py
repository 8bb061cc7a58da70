"""Emitters and removal: how many particles, where and when, room that grows by doubling, files, bad input by name."""

import numpy as np
import pytest

from engine.config import config
from engine.errors import SceneError
from engine.sim.builder import ModelBuilder
from engine.sim.fluid_settings import METHODS
from engine.sim.simulation import Simulation, restore


def nozzle(gravity=0.0, **options) -> ModelBuilder:
    """A jet of 3 × 3 particles and less: 2 m/s along x, 0.1 m from layer to layer."""
    b = ModelBuilder(gravity=gravity)
    b.set_particle_radius(0.05)
    b.add_emitter(b.add_fluid(), (0, 0.5, 0.5), (2, 0, 0), 0.16, **options)
    return b


def test_layers_leave_at_the_distance_of_particles():
    sim = Simulation(nozzle(start=0.1, stop=0.36).finalize(), dt=0.05)
    sizes = [len(sim.state.particle_q)]
    for _ in range(10):
        sim.step()
        sizes.append(len(sim.state.particle_q))
        assert sim.stats.fluid.particles == sizes[-1] and sim.stats.fluid.emitted == sizes[-1] - sizes[-2]
    # layers at 0.1, 0.15 … 0.35 s; those that fall due between two steps leave in the next one
    assert sizes[:3] == [0, 0, 0] and sizes[-1] == 6 * 5
    q, ids = sim.state.particle_q.numpy(), sim.state.particle_id.numpy()
    layers = q[np.argsort(ids)].reshape(6, 5, 3)
    assert sorted(ids) == list(range(30))
    when = 0.1 + 0.05 * np.arange(6)
    assert np.allclose(layers[:, :, 0].mean(axis=1), 2.0 * (0.5 - when), atol=2e-3)
    assert np.abs(layers[:, :, 1:] - 0.5).max() < 0.11
    assert np.allclose(sim.state.particle_qd.numpy(), (2, 0, 0), atol=0.05)


def test_an_emitter_stops_at_its_number_and_ids_go_on_after_those_of_the_model():
    b = nozzle(most=7)
    b.add_particles([(5, 5, 5), (6, 5, 5)], fluid=0)
    b.add_emitter(0, (0, 9, 9), (0, 0, 1), 0.01, most=3)
    sim = Simulation(b.finalize(), dt=0.05)
    for _ in range(8):
        sim.step()
    assert sorted(sim.state.particle_id.numpy()) == list(range(12))
    assert sim.state.emitter_emitted.numpy().tolist() == [7, 3]


def test_room_grows_by_doubling_and_arrays_keep_their_identity():
    sim = Simulation(nozzle().finalize(), dt=0.05)
    q, moves = sim.state.particle_q, set()
    for _ in range(60):
        sim.step()
        assert sim.state.particle_q is q and len(q) == sim.stats.fluid.particles
        moves.add(q.ptr)
    assert len(q) > 200 and len(moves) <= 8


@pytest.mark.parametrize("method", METHODS)
def test_a_jet_into_a_tank_that_drains(method):
    """Emitted less removed is what is there; nothing explodes."""
    b = ModelBuilder()
    b.set_particle_radius(0.05)
    b.set_domain((0, 0, 0), (0.6, 0.6, 1.0))
    b.add_fluid_block((0, 0, 0), (0.6, 0.6, 0.2))
    b.add_emitter(0, (0.3, 0.3, 0.9), (0, 0, -1.5), 0.16)
    b.add_outflow((0.4, 0.4, -0.1), (0.7, 0.7, 0.1))
    sim = Simulation(b.finalize(), dt=1 / 60, fluid_options={"method": method})
    emitted = removed = 0
    for _ in range(25):
        sim.step()
        fluid = sim.stats.fluid
        emitted, removed = emitted + fluid.emitted, removed + fluid.removed
        assert fluid.particles == len(sim.state.particle_q) == sim.model.nparticle + emitted - removed
        q = sim.state.particle_q.numpy()
        assert not ((q > (0.4, 0.4, -0.1)) & (q < (0.7, 0.7, 0.1))).all(axis=1).any()
    assert emitted >= 25 and removed > 4
    assert len(set(sim.state.particle_id.numpy())) == fluid.particles
    assert np.abs(sim.state.particle_qd.numpy()).max() < 6.0


def test_what_leaves_an_open_domain_is_removed_down_to_nothing():
    b = ModelBuilder()
    b.set_particle_radius(0.05)
    b.set_domain((0, 0, 0), (1, 1, 1), walls=False)
    b.add_fluid_block((0.3, 0.3, 0.3), (0.6, 0.6, 0.6))
    sim = Simulation(b.finalize(), dt=1 / 60)
    removed = 0
    for _ in range(40):
        sim.step()
        removed += sim.stats.fluid.removed
        assert (sim.state.particle_q.numpy() >= 0).all()
    assert removed == sim.model.nparticle == 27 and sim.stats.fluid.particles == 0
    sim.reset()
    assert len(sim.state.particle_q) == 27


def jet(device="cpu") -> Simulation:
    b = nozzle(gravity=-9.81)
    b.set_domain((-0.1, 0, 0), (0.5, 1, 1), walls=False)
    return Simulation(b.finalize(device=device), dt=0.05)


def test_threads_saving_and_the_emulated_gpu_do_not_change_the_bits(tmp_path):
    hashes = []
    for threads in (1, 2):
        with config.scope(threads=threads):
            sim = jet()
            for frame in range(10):
                if frame == 5 and threads == 2:
                    sim.save(tmp_path / "half.npz")
                    sim = restore(tmp_path / "half.npz")
                sim.step()
            hashes.append(sim.hash())
    assert hashes[0] == hashes[1]
    assert sim.stats.fluid.removed > 0
    small = []
    for device in ("cpu", "emu"):
        sim = jet(device)
        for frame in range(4):
            sim._fluid.begin(frame, 0.1 * frame)
            sim._fluid.advance(sim._clock, 0.02)
        small.append(sim.hash())
    assert small[0] == small[1]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda b: b.add_emitter(1, (0, 0, 0), (1, 0, 0), 1), "emitter 0: fluid 1 does not exist"),
        (lambda b: b.add_emitter(0, (0, 0, 0), (0, 0, 0), 1), "emitter 0: velocity must not be 0"),
        (lambda b: b.add_emitter(0, (0, 0, np.nan), (1, 0, 0), 1), "emitter 0"),
        (lambda b: b.add_emitter(0, (0, 0, 0), (1, 0, 0), 0.0), "radius must be positive"),
        (lambda b: b.add_emitter(0, (0, 0, 0), (1, 0, 0), 1e9), "would hold more than"),
        (lambda b: b.add_emitter(0, (0, 0, 0), (1, 0, 0), 1, start=2, stop=1), "before it stops, got 2 to 1"),
        (lambda b: b.add_emitter(0, (0, 0, 0), (1, 0, 0), 1, most=0), "most must be at least 1"),
        (lambda b: b.add_outflow((0, 0, 0), (1, 0, 1)), "outflow 0: has no volume"),
    ],
)
def test_bad_emitters_are_named(wrong, message):
    b = ModelBuilder()
    b.add_fluid()
    with pytest.raises(SceneError, match=message):
        wrong(b)


def test_emitters_and_outflows_in_usd(tmp_path):
    from engine.sim.load import load
    from tests.sim.test_scene_usd_fluids import FLUID, scene

    emitter = """float[] weft:fluid:emitterRadii = [3]
        custom float3[] weft:fluid:emitterCenters = [(20, 20, 20)]
        custom float3[] weft:fluid:emitterVelocities = [(0, 0, -50)]
        custom float2[] weft:fluid:emitterTimes = [(0.5, 2)]
        custom float"""
    outflow = "custom float3[] weft:domain:outflows = [(0, 0, 0), (50, 50, 1)]\n        custom float3 weft:domain:lower"
    text = FLUID.replace("float weft:fluid:density", f"{emitter} weft:fluid:density")
    text = text.replace("custom float3 weft:domain:lower", outflow)
    m = load(scene(tmp_path, text)).model
    assert m.nemitter == 1 and np.allclose(m.emitter_velocity.numpy(), (0, 0, -0.5))
    assert m.emitter_point_count.numpy()[0] == 5 and np.allclose(m.emitter_point.numpy().mean(axis=0), (0.3, 0.4, 0.5))
    assert (m.emitter_start.numpy()[0], m.emitter_stop.numpy()[0]) == (0.5, 2.0)
    assert np.allclose(m.outflow_upper.numpy(), (0.5, 0.5, 0.01))
    with pytest.raises(SceneError, match="weft:fluid:emitterCenters.*1 centers, 1 velocities, 2 radii"):
        load(scene(tmp_path, text.replace("Radii = [3]", "Radii = [3, 4]")))
    with pytest.raises(SceneError, match="pairs of corners"):
        load(scene(tmp_path, text.replace("[(0, 0, 0), (50, 50, 1)]", "[(0, 0, 0)]")))
