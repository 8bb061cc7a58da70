"""Fluids: neighbours against brute force, rest, momentum, a dam break, threads, limits, bad numbers."""

import numpy as np
import pytest
from scipy.spatial import cKDTree

from engine.config import config
from engine.errors import SimulationError
from engine.sim.builder import ModelBuilder
from engine.sim.fluid_settings import Settings
from engine.sim.particle_cells import GROUP
from engine.sim.simulation import Simulation, restore

GRAVITY = 9.81
# Koshizuka & Oka 1996: (T, Z) of the front of a collapsing column twice as high as wide
FRONT = np.array([
    (0.0, 1.0), (0.381, 1.111), (0.769, 1.252), (1.153, 1.505), (1.537, 1.892), (1.935, 2.241), (2.323, 2.615),
    (2.719, 3.003), (3.096, 3.624),
])  # fmt: skip


def tank(radius=0.05, size=(0.6, 0.5, 0.6), height=1.2, viscosity=0.01, dt=1 / 60) -> Simulation:
    """A box that is filled up to size[2]."""
    b = ModelBuilder()
    b.set_particle_radius(radius)
    b.set_domain((0, 0, 0), (size[0], size[1], height))
    b.add_fluid_block((0, 0, 0), size, viscosity=viscosity)
    return Simulation(b.finalize(), dt=dt)


def energy(sim) -> float:
    """J/kg, mean of the particles."""
    v, q = sim.state.particle_qd.numpy().astype(float), sim.state.particle_q.numpy().astype(float)
    return float(0.5 * (v**2).sum(axis=1).mean() + GRAVITY * q[:, 2].mean())


def test_neighbours_are_those_of_brute_force(rng):
    b = ModelBuilder()
    b.set_particle_radius(0.1)
    q = rng.uniform(-1.0, 1.0, (700, 3))
    b.set_domain((-1, -1, -1), (1, 1, 1))
    b.add_particles(q, fluid=b.add_fluid())
    sim = Simulation(b.finalize())
    near = sim._fluid.near
    near.update()
    place = near.place.numpy()["x"].astype(float)
    n, ids = near.nparticle, sim.state.particle_id.numpy()
    assert np.allclose(place[:n], q[ids], atol=1e-6) and sorted(ids) == list(range(n))
    wanted = cKDTree(place).query_ball_point(place[:n], near.support)
    count, table = near.count.numpy(), near.list.numpy()
    assert count.max() <= near.capacity  # it had to grow: particles at random lie closer than at rest
    edge = 0
    for group in range(near.groups):
        members = range(group * GROUP, min((group + 1) * GROUP, n))
        listed, expected = table[group, : count[group]].tolist(), set().union(*(wanted[i] for i in members))
        assert len(set(listed)) == count[group]
        edge += len(set(listed) ^ expected)  # pairs whose distance is the support to the last bit
    assert edge <= 2
    assert sum(j >= n for i in range(n) for j in wanted[i]) > 1000  # points of the walls are among them


def test_lists_that_are_just_full_keep_their_last_neighbour(rng):
    """What was not near any more took the last place of a list as long as there was room for."""
    b = ModelBuilder()
    b.set_particle_radius(0.1)
    b.set_domain((-1, -1, -1), (1, 1, 1))
    b.add_particles(rng.uniform(-1.0, 1.0, (300, 3)), fluid=b.add_fluid())
    near = Simulation(b.finalize())._fluid.near
    near.update()
    count = near.count.numpy().copy()
    listed = [sorted(row[:n]) for row, n in zip(near.list.numpy(), count, strict=True)]
    near._reserve_list(int(count.max()))
    near.update()
    assert [sorted(row[:n]) for row, n in zip(near.list.numpy(), near.count.numpy(), strict=True)] == listed


def test_tank_at_rest_keeps_its_density_and_its_energy_falls():
    sim = tank()
    start, energies, densities = energy(sim), [], []
    for _ in range(60):
        sim.step()
        energies.append(energy(sim))
        densities.append(float(sim.state.particle_density.numpy().mean()))
        assert sim.stats.fluid.unsolved == 0 and sim.stats.fluid.clamped == 0
        assert sim.stats.fluid.density_error <= Settings().density_error
    # the lattice first settles into a liquid's order, and may gain a hundredth of what a fall by its height would give
    assert max(energies) < start + 0.01 * GRAVITY * 0.6
    assert energies[-1] < energies[19] < energies[9]
    assert np.mean(densities[30:]) == pytest.approx(1.0, abs=0.01)


def test_pressure_in_a_tank_at_rest():
    """p = ρ g (h − z) within 5 %: means over time, and over slabs two particles thick, off the walls."""
    sim = tank(size=(1.0, 1.0, 0.8), dt=0.005)
    places, pressures = [], []
    for frame in range(200):
        sim.step()
        if frame >= 100:
            places.append(sim.state.particle_q.numpy().copy())
            pressures.append(sim.state.particle_pressure.numpy().copy())
    x, p = np.concatenate(places), np.concatenate(pressures)
    inner = (np.abs(x[:, :2] - 0.5) < 0.3).all(axis=1)
    for lower in (0.1, 0.2, 0.3, 0.4):
        slab = inner & (x[:, 2] >= lower) & (x[:, 2] < lower + 0.2)
        assert p[slab].mean() == pytest.approx(GRAVITY * (0.8 - x[slab, 2].mean()), rel=0.05), lower
    floor = inner & (x[:, 2] < 0.1)  # the layer beside a wall has more: see boundary_samples
    assert 1.0 < p[floor].mean() / (GRAVITY * (0.8 - x[floor, 2].mean())) < 1.2


def test_momentum_without_walls():
    b = ModelBuilder(gravity=0.0)
    b.set_particle_radius(0.05)
    water, oil = b.add_fluid(1000.0, 1e-3), b.add_fluid(800.0, 1e-3)
    b.add_fluid_block((-0.5, 0, 0), (0.0, 0.5, 0.5), water, velocity=(2.0, 0.0, 0.0))
    b.add_fluid_block((0.1, 0.1, 0.05), (0.6, 0.6, 0.55), oil, velocity=(-1.0, 0.5, 0.0))
    sim = Simulation(b.finalize(), dt=1 / 60)
    density = sim.model.fluid_density.numpy()

    def momentum():
        s = sim.state
        mass = density[s.particle_fluid.numpy()].astype(float)
        return (mass[:, None] * s.particle_qd.numpy()).sum(axis=0), (mass * np.abs(s.particle_qd.numpy()[:, 0])).sum()

    start, size = momentum()
    for _ in range(20):
        sim.step()
    assert np.abs(momentum()[0] - start).max() < 1e-4 * size
    assert np.abs(sim.state.particle_qd.numpy()).max() < 5.0  # they did meet, and did not explode
    assert sim.state.particle_qd.numpy()[:, 0].std() < 1.4  # 1.5 at the start


def test_dam_break_front():
    """Z(T) between −10 % and +15 % of Koshizuka & Oka's for 0.8 < T < 3, a column 0.3 m wide, 12 particles."""
    a, radius = 0.3, 0.0125
    b = ModelBuilder()
    b.set_particle_radius(radius)
    b.set_domain((0, 0, 0), (4.5 * a, 8 * radius, 3 * a))
    b.add_fluid_block((0, 0, 0), (a, 8 * radius, 2 * a), viscosity=1e-3, wall_viscosity=1e-3)
    sim = Simulation(b.finalize(), dt=0.01)
    ratios = []
    while (t := sim.time * np.sqrt(2.0 * GRAVITY / a)) < 3.0:
        front = np.sort(sim.state.particle_q.numpy()[:, 0])[-20:].mean() + radius
        if t > 0.8:
            ratios.append(front / a / np.interp(t, *FRONT.T))
        sim.step()
    assert len(ratios) > 20
    assert 0.90 < min(ratios) and max(ratios) < 1.15, ratios


def test_water_that_sloshes_is_not_pressed_into_the_walls():
    """Particles that meet a wall hard come out again; before, ten of them stayed on the domain's faces."""
    radius = 0.0125
    b = ModelBuilder()
    b.set_particle_radius(radius)
    b.set_domain((0, 0, 0), (1.35, 8 * radius, 0.9))
    b.add_fluid_block((0, 0, 0), (0.3, 8 * radius, 0.6), viscosity=1e-4, wall_viscosity=1e-4)
    sim = Simulation(b.finalize(), dt=0.01)
    clamped = 0
    for _ in range(60):
        sim.step()
        clamped += sim.stats.fluid.clamped
    assert clamped == 0


def test_threads_do_not_change_the_bits_and_neither_does_saving(tmp_path):
    hashes = []
    for threads in (1, 2, 4):
        with config.scope(threads=threads):
            sim = tank(viscosity=1e-4)
            for frame in range(4):
                if frame == 2 and threads == 2:
                    sim.save(tmp_path / "half.npz")
                    sim = restore(tmp_path / "half.npz")
                sim.step()
            hashes.append(sim.hash())
    assert hashes[0] == hashes[1] == hashes[2]


def test_iterations_that_hit_the_limit_are_reported():
    sim = tank()
    sim._fluid.settings = Settings(density_error=1e-9, most_iterations=3)
    sim.step()
    fluid = sim.stats.fluid
    assert fluid.unsolved >= fluid.steps
    assert fluid.density_error > 1e-9 and fluid.iterations == 3 * fluid.steps


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_particles_that_are_not_finite_are_named(value):
    sim = tank()
    sim.step()
    sim.state.particle_qd.numpy()[17, 1] = value
    name = sim.state.particle_id.numpy()[17]
    with pytest.raises(SimulationError, match=f"particle_qd of body 'particle {name}'"):
        sim.step()


def test_reset_puts_the_particles_back():
    sim = tank()
    before = sim.hash()
    sim.step()
    sim.reset()
    assert sim.hash() == before


def test_the_emulated_gpu_gives_the_bits_of_the_cpu():
    hashes = []
    for device in ("cpu", "emu"):
        b = ModelBuilder()
        b.set_particle_radius(0.05)
        b.set_domain((0, 0, 0), (0.5, 0.4, 0.5))
        b.add_fluid_block((0, 0, 0), (0.4, 0.3, 0.3))
        sim = Simulation(b.finalize(device=device), dt=0.005)
        for _ in range(2):
            sim._fluid.begin(0)
            sim._fluid.advance(sim._clock, sim.dt)
        hashes.append(sim.hash())
    assert hashes[0] == hashes[1]


@pytest.mark.soak
def test_energy_never_grows_in_ten_seconds_of_rest():
    sim = tank(viscosity=1e-3)
    energies, clamped = [energy(sim)], 0
    for _ in range(600):
        sim.step()
        energies.append(energy(sim))
        clamped += sim.stats.fluid.clamped
    late = np.array(energies[60:])  # the first second brings the lattice into a liquid's order
    assert (late - np.minimum.accumulate(late)).max() < 1e-4 * GRAVITY * 0.6
    assert late[-1] < late[0] < energies[0] + 0.01 * GRAVITY * 0.6 and clamped == 0


@pytest.mark.soak
@pytest.mark.parametrize("length", [3.6, 3.61, 4.0])
def test_tanks_of_any_length_hold_a_dam_break(length):
    """SPlisHSPlasH's issue 179: a tank of 3.6 m exploded where one of 4 m did not."""
    b = ModelBuilder(up_axis="y")
    b.set_particle_radius(0.04)
    b.set_domain((-length / 2, 0, -0.75), (length / 2, 3.0, 0.75))
    b.add_fluid_block((-length / 2, 0, -0.75), (-length / 2 + 1.0, 1.0, 0.75), viscosity=0.01)
    sim = Simulation(b.finalize(), dt=1 / 60)
    for _ in range(180):
        sim.step()
        assert sim.stats.fluid.clamped == 0 and sim.stats.fluid.short_steps == 0
        assert np.abs(sim.state.particle_qd.numpy()).max() < 1.5 * np.sqrt(2 * GRAVITY * 2.0)
