"""Particles in the builder: lattices, domains, points of solids, and bad input by name."""

import numpy as np
import pytest

from engine.errors import SceneError
from engine.sim import boundary_samples as samples
from engine.sim.builder import ModelBuilder
from engine.sim.cubic_spline import weight


def filled() -> ModelBuilder:
    b = ModelBuilder()
    b.set_particle_radius(0.1)
    return b


def test_block_is_a_lattice_that_fills_its_box():
    b = filled()
    first = b.add_fluid_block((0, 0, 0), (1, 0.6, 0.4), density=900.0, velocity=(1, 2, 3), label="oil")
    second = b.add_fluid_block((2, 0, 0), (2.2, 0.2, 0.2))
    m = b.finalize()
    q = m.particle_q.numpy()
    assert (first, second, m.nparticle, m.nfluid) == (0, 30, 31, 2)
    assert np.allclose(q[:30].min(axis=0), 0.1) and np.allclose(q[:30].max(axis=0), (0.9, 0.5, 0.3))
    assert np.allclose(m.particle_qd.numpy()[:30], (1, 2, 3))
    assert m.particle_fluid.numpy().tolist() == [0] * 30 + [1]
    assert m.fluid_density.numpy().tolist() == [900.0, 1000.0]


def test_lattice_beside_a_wall_has_the_density_at_rest():
    """A flat layer weighs as much as the half space of fluid that it stands for."""
    radius = 0.1
    support, spacing = 4 * radius, 2 * radius
    steps = spacing * np.arange(-12, 13)
    layer = np.stack(np.meshgrid(steps, steps, [-samples.DEPTH * radius], indexing="ij"), axis=-1).reshape(-1, 3)
    volume = samples.volumes(layer, radius)[len(layer) // 2]
    fluid = np.stack(np.meshgrid(steps, steps, radius + spacing * np.arange(6), indexing="ij"), axis=-1).reshape(-1, 3)
    at = np.array([0.0, 0.0, radius])

    def spline(gap):
        near = (gap**2).sum(axis=1)
        return np.array([weight(float(x), support) for x in near[near < support**2]])

    density = spacing**3 * spline(fluid - at).sum()
    density += volume * spline(layer - at).sum()
    assert density == pytest.approx(1.0, abs=0.01)


def test_points_of_solids():
    b = filled()
    body = b.add_body(((5, 0, 3), (0, 0, 0, 1)))
    b.add_shape_box(body, None, 0.5, 0.5, 0.5)
    b.add_shape_sphere(-1, ((9, 0, 0), (0, 0, 0, 1)), 0.5)
    b.add_ground_plane()
    b.add_fluid_block((0, 0, 1), (1, 1, 2))
    m = b.finalize()
    x, owner = m.boundary_q.numpy(), m.boundary_body.numpy()
    inside = 0.5 - samples.DEPTH * 0.1
    assert np.abs(x[owner == body]).max() == pytest.approx(inside)
    assert (np.abs(x[owner == body]).max(axis=1) > inside - 1e-6).all()
    ball = x[owner == -1][np.abs(x[owner == -1][:, 0] - 9) < 1]
    assert np.allclose(np.linalg.norm(ball - (9, 0, 0), axis=1), inside, atol=1e-5)
    assert (m.boundary_volume.numpy() > 0).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda b: b.set_particle_radius(0.0), "particles: radius: must be positive, got 0"),
        (lambda b: b.set_particle_radius(float("nan")), "radius"),
        (lambda b: b.set_domain((0, 0, 0), (1, 0, 1)), "domain: has no volume"),
        (lambda b: b.add_fluid(density=0.0), "fluid_0: density must be positive, got 0"),
        (lambda b: b.add_fluid(viscosity=-1.0), "fluid_0: viscosity must be at least 0, got -1"),
        (lambda b: b.add_particles([[0, 0, 0]]), "particles: fluid: 0 does not exist"),
        (lambda b: b.add_fluid_block((0, 0, 0), (0.1, 1, 1)), "fluid block: has no room for a particle of radius 0.1"),
        (lambda b: b.add_fluid_block((0, 0, 0), (1e5, 1e5, 1e5)), "would hold 1.25e\\+17 particles"),
        (
            lambda b: b.add_particles([[0, 0, 0], [0, np.nan, 0]], fluid=b.add_fluid(label="tea")),
            "tea: particles: position of particle 1 is not finite",
        ),
        (
            lambda b: b.add_particles([[0, 0, 0]], [[0, 0, np.inf]], fluid=b.add_fluid()),
            "velocity of particle 0 is not finite",
        ),
    ],
)
def test_bad_input_is_named(wrong, message):
    with pytest.raises(SceneError, match=message):
        wrong(filled())


def test_particles_outside_the_domain_and_inside_solids_are_named():
    b = filled()
    b.set_domain((0, 0, 0), (1, 1, 1))
    b.add_fluid_block((0, 0, 0), (1, 1, 1.2))
    with pytest.raises(SceneError, match=r"particle 5: at \(0.1, 0.1, 1.1\) is outside the domain \(25 such"):
        b.finalize()
    b = filled()
    b.add_shape_box(-1, None, 0.3, 0.3, 0.3, label="rock")
    b.add_fluid_block((0, 0, 0), (1, 1, 1))
    b.add_particles([(0.9, 0.9, 0.9), (0.1, 0.0, 0.2)], fluid=0)
    with pytest.raises(SceneError, match="particle 126: .* inside the solid 'rock'"):
        b.finalize()


def blocks(b, *ways) -> np.ndarray:
    """Particles of blocks of half a metre, each moved by one of `ways`."""
    fluid = b.add_fluid()
    for way in ways:
        b.add_fluid_block(np.zeros(3) + way, np.full(3, 0.5) + way, fluid)
    return b.finalize().particle_q.numpy().astype(float)


@pytest.mark.parametrize("way", [(0.2, 0, 0), (0.23, 0.04, -0.31), (0, 0, 0), (3, 0, 0)])
def test_boxes_full_of_fluid_leave_room_for_each_other(way):
    b = ModelBuilder()
    b.set_particle_radius(0.05)
    q = blocks(b, (0, 0, 0), way)
    apart = np.linalg.norm(q[:, None] - q, axis=2) + 9.0 * np.eye(len(q))
    assert apart.min() > 1.59 * 0.05
    alone = np.array([not ((x > 0) & (x < 0.5)).all() for x in q])  # beside the first block at least
    gap = np.abs(q - 0.25).max(axis=1) - 0.25
    assert (~alone).sum() == 125 and ((gap > 0.1).sum() > 0 or way == (0, 0, 0))


def test_overlaps_are_named():
    b = ModelBuilder()
    b.set_particle_radius(0.05)
    b.set_domain((0, 0, 0), (1, 1, 1))
    b.add_particles([(0.1, 0.1, 0.1), (0.3, 0.3, 0.3), (0.6, 0.5, 0.5), (0.3, 0.3, 0.3)], fluid=b.add_fluid())
    with pytest.raises(SceneError, match=r"particle 3: at \(0.3, 0.3, 0.3\) is where another one is"):
        b.finalize()
    b = ModelBuilder()
    b.set_particle_radius(0.05)
    b.add_shape_sphere(-1, ((0.5, 0.5, 0.5), (0, 0, 0, 1)), 0.2, label="rock")
    b.add_emitter(b.add_fluid(), (0.5, 0.5, 0.71), (0, 0, 1), 0.2)
    b.finalize()
    b.add_emitter(0, (0.5, 0.3, 0.5), (0, 0, 1), 0.2)
    with pytest.raises(SceneError, match="emitter 1: .* of its 9 particles start inside the solid 'rock'"):
        b.finalize()


@pytest.mark.parametrize(("walls", "periodic"), [(True, ""), (True, "x"), (False, "xyz")])
def test_more_particles_than_a_closed_domain_has_room_for_are_refused(walls, periodic, rng):
    for number in (1000, 1002):
        b = ModelBuilder()
        b.set_particle_radius(0.05)
        b.set_domain((0, 0, 0), (1, 1, 1), walls, periodic=periodic)
        b.add_particles(rng.uniform(0, 1, (number, 3)), fluid=b.add_fluid())
        if number == 1000:
            b.finalize()
    with pytest.raises(SceneError, match="domain: has room for 1000 particles, there are 1002"):
        b.finalize()
