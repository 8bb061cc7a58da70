"""Bodies in fluids: points of every shape, momentum, buoyancy, paddles, the same bits everywhere."""

import numpy as np
import pytest

from engine.config import config
from engine.errors import SceneError, SimulationError
from engine.geom.pose import quat_to_matrix
from engine.geom.shape_distance import signed_distance
from engine.geom.shapes import ShapeType
from engine.sim import boundary_samples as samples
from engine.sim.builder import ModelBuilder
from engine.sim.simulation import Simulation

SHAPES = {
    "box": lambda b, body, **o: b.add_shape_box(body, None, 0.1, 0.12, 0.14, **o),
    "sphere": lambda b, body, **o: b.add_shape_sphere(body, None, 0.13, **o),
    "capsule": lambda b, body, **o: b.add_shape_capsule(body, None, 0.1, 0.1, **o),
    "cylinder": lambda b, body, **o: b.add_shape_cylinder(body, None, 0.12, 0.12, **o),
    "cone": lambda b, body, **o: b.add_shape_cone(body, None, 0.2, 0.2, **o),
    "ellipsoid": lambda b, body, **o: b.add_shape_ellipsoid(body, None, 0.15, 0.1, 0.2, **o),
    "hull": lambda b, body, **o: b.add_shape_convex_hull(
        body, None, [(x, y, z) for x in (-0.2, 0.2) for y in (-0.15, 0.15) for z in (-0.1, 0.1 + x / 2)], **o
    ),
}


def momenta(sim) -> tuple[np.ndarray, np.ndarray]:
    """Linear and angular (about the origin) momentum of particles and bodies."""
    m, s = sim.model, sim.state
    x, v = s.particle_q.numpy().astype(float), s.particle_qd.numpy().astype(float)
    mass = m.fluid_density.numpy()[s.particle_fluid.numpy()] * (2.0 * m.particle_radius.numpy()[0]) ** 3
    linear, angular = (mass[:, None] * v).sum(axis=0), (mass[:, None] * np.cross(x, v)).sum(axis=0)
    for i in range(m.nbody):
        q, qd = s.body_q.numpy()[i].astype(float), s.body_qd.numpy()[i].astype(float)
        turn = quat_to_matrix(q[3:])
        push = float(m.body_mass.numpy()[i]) * qd[:3]
        linear += push
        angular += np.cross(q[:3] + turn @ m.body_com.numpy()[i], push)
        angular += turn @ m.body_inertia.numpy()[i].astype(float) @ turn.T @ qd[3:]
    return linear, angular


@pytest.mark.parametrize("name", SHAPES)
def test_distance_is_that_of_a_surface_sampled_by_rays(name, rng):
    """Along a ray from the inside the distance rises through 0 once; inside it is that to the nearest crossing."""
    b = ModelBuilder()
    SHAPES[name](b, b.add_body())
    shape = b.shapes[0]
    rays = rng.normal(size=(4000, 3))
    rays /= np.linalg.norm(rays, axis=1)[:, None]
    near, far = np.zeros(4000), np.ones(4000)
    for _ in range(40):
        middle = (near + far) / 2.0
        out = signed_distance(shape.kind, shape.scale, shape.hull, rays * middle[:, None]) > 0.0
        near, far = np.where(out, near, middle), np.where(out, middle, far)
    surface = rays * near[:, None]
    inner = surface[::20] * rng.uniform(0.55, 0.95, (200, 1))
    got = signed_distance(shape.kind, shape.scale, shape.hull, inner)
    exact = -np.linalg.norm(inner[:, None] - surface, axis=2).min(axis=1)
    loose = 0.04 if shape.kind == ShapeType.ELLIPSOID else 0.012  # rays miss the nearest point by their spacing
    assert np.abs(got - exact).max() < loose


@pytest.mark.parametrize("name", SHAPES)
def test_points_lie_below_the_surface_at_the_spacing_of_the_fluid(name):
    radius = 0.02
    b = ModelBuilder()
    b.set_particle_radius(radius)
    SHAPES[name](b, b.add_body())
    b.add_fluid_block((1, 1, 1), (1.1, 1.1, 1.1))
    m, shape = b.finalize(), b.shapes[0]
    x = m.boundary_q.numpy().astype(float)
    depth = -signed_distance(shape.kind, shape.scale, shape.hull, x)
    assert np.abs(depth - samples.DEPTH * radius).max() < 0.1 * radius
    from scipy.spatial import cKDTree

    gap = cKDTree(x).query(x, 2)[0][:, 1]
    assert gap.min() > 1.1 * radius and gap.max() < 2.9 * radius
    # nowhere a hole that a particle fits through: every place of the layer has a point near it
    lift = samples.DEPTH * radius / 2
    fine = samples.level_layer(lambda p: signed_distance(shape.kind, shape.scale, shape.hull, p) + lift,
                               np.abs(x).max(axis=0) + radius, radius / 2)  # fmt: skip
    assert cKDTree(x).query(fine)[0].max() < 2.4 * radius


@pytest.mark.parametrize("name", SHAPES)
def test_momentum_is_kept_between_fluid_and_body(name):
    b = ModelBuilder(gravity=0.0)
    b.set_particle_radius(0.03)
    water = b.add_fluid(1000.0, 1e-3, wall_viscosity=1e-2)
    b.add_fluid_block((-0.3, -0.15, -0.15), (0.0, 0.2, 0.2), water, velocity=(2.0, 0.0, 0.0))
    SHAPES[name](b, b.add_body(((0.25, 0.05, 0.0), (0, 0, 0, 1))), density=500.0)
    sim = Simulation(b.finalize(), dt=1 / 60)
    linear, angular = momenta(sim)
    for _ in range(15):
        sim.step()
    after = momenta(sim)
    size = np.linalg.norm(linear)
    assert np.abs(after[0] - linear).max() < 1e-5 * size
    assert np.abs(after[1] - angular).max() < 1e-4 * size
    assert sim.state.body_qd.numpy()[0, 0] > 0.3  # it was hit


def floating(density: float, height: float, depth=0.28) -> Simulation:
    """A cube of 0.2 m that cannot turn (flat, one of half the density tips over), in a tank of 0.48 m."""
    b = ModelBuilder()
    b.set_particle_radius(0.02)
    b.set_domain((0, 0, 0), (0.48, 0.48, 1.0))
    b.add_fluid_block((0, 0, 0), (0.48, 0.48, depth), viscosity=1e-3)
    body = b.add_body(((0.24, 0.24, height), (0, 0, 0, 1)), mass=0.008 * density, inertia=(1e4, 1e4, 1e4))
    b.add_shape_box(body, None, 0.1, 0.1, 0.1)
    return Simulation(b.finalize(), dt=1 / 60)


def test_draft_of_a_cube_of_half_the_density():
    sim = floating(500.0, 0.29)
    heights = []
    for frame in range(60):
        sim.step()
        if frame >= 30:
            heights.append(float(sim.state.body_q.numpy()[0, 2]))
    area, volume = 0.48**2, sim.model.nparticle * 0.04**3
    bottom = np.mean(heights) - 0.1
    draft = (volume / area - bottom) / (1.0 - 0.04 / area)  # the water that the cube displaces lifts the surface
    assert draft == pytest.approx(0.1, rel=0.1)


def test_light_bodies_do_not_dance_and_heavy_ones_sink():
    """Bodies of 1/20 of the density of water stay calm: their answer is part of the pressure solve."""
    sim = floating(50.0, 0.36)
    for _ in range(30):
        sim.step()
    assert abs(sim.state.body_qd.numpy()[0, 2]) < 0.3 and 0.33 < sim.state.body_q.numpy()[0, 2] < 0.43
    sim = floating(3000.0, 0.26)
    while sim.state.body_q.numpy()[0, 2] > 0.17:  # two layers of particles are left between it and the floor
        sim.step()
        assert sim.frame < 15
    x = sim.state.particle_q.numpy() - sim.state.body_q.numpy()[0, :3]
    assert np.abs(x).max(axis=1).min() > 0.1 - 0.5 * 0.02  # its edges are felt rounded


def test_a_paddle_pushes_the_water_and_is_not_pushed():
    b = ModelBuilder()
    b.set_particle_radius(0.02)
    b.set_domain((0, 0, 0), (0.8, 0.24, 0.6))
    b.add_fluid_block((0.2, 0, 0), (0.8, 0.24, 0.16))
    paddle = b.add_body(((0.1, 0.12, 0.3), (0, 0, 0, 1)), kinematic=True, linear_velocity=(0.8, 0, 0))
    b.add_shape_box(paddle, None, 0.05, 0.12, 0.3)
    sim = Simulation(b.finalize(), dt=1 / 60)
    start = sim.state.particle_q.numpy()[:, 0].mean()
    for _ in range(20):
        sim.step()
    q = sim.state.body_q.numpy()[0]
    assert q[0] == pytest.approx(0.1 + 0.8 / 3, rel=1e-5)
    assert sim.state.particle_q.numpy()[:, 0].min() > q[0] + 0.05
    assert sim.state.particle_q.numpy()[:, 0].mean() > start + 0.05


def test_walls_stand_still_behind_bodies_that_move():
    """Points of solids are sorted anew in each step: what a body's point had in its row is none of a wall's."""
    b = ModelBuilder()
    b.set_particle_radius(0.05)
    b.set_domain((0, 0, 0), (0.9, 0.5, 0.9))
    b.add_fluid_block((0, 0, 0), (0.9, 0.5, 0.4))
    body = b.add_body(((0.25, 0.25, 0.3), (0, 0, 0, 1)), kinematic=True, linear_velocity=(3, 0, 0))
    b.add_shape_box(body, None, 0.1, 0.1, 0.1)
    sim = Simulation(b.finalize(), dt=1 / 60)
    walls = sim.model.boundary_body.numpy() < 0
    before, moved, clamped = set(), 0, 0
    for _ in range(8):
        sim.step()
        fluid, clamped = sim._fluid, clamped + sim.stats.fluid.clamped
        rows = fluid.near.nfluid + fluid.near.slot.numpy()
        moved += len(before & set(rows[walls]))
        before = set(rows[~walls])
        assert not fluid.near.velocity.numpy()["v"][rows[walls]].any()
        assert not fluid._moved.numpy()["v"][rows[walls]].any()
        assert (fluid.near.velocity.numpy()["v"][rows[~walls], 0] > 2.9).all()
    assert moved > 0 and clamped == 0


def immersed(density: float, radius: float) -> Simulation:
    """A ball in the middle of a tank of water."""
    b = ModelBuilder()
    b.set_particle_radius(0.05)
    b.set_domain((0, 0, 0), (1, 0.5, 1))
    b.add_shape_sphere(b.add_body(((0.5, 0.25, 0.2), (0, 0, 0, 1))), None, radius, density=density)
    b.add_fluid_block((0, 0, 0), (1, 0.5, 0.4), viscosity=1e-3)
    return Simulation(b.finalize(), dt=1 / 60)


@pytest.mark.parametrize(("density", "radius"), [(1000.0, 0.045), (100.0, 0.045), (5.0, 0.12), (50.0, 0.2)])
def test_bodies_that_start_in_the_water_do_not_explode(density, radius):
    """Small and light ones move more than the particle that presses on them: the solve has to know."""
    sim = immersed(density, radius)
    for _ in range(6):
        sim.step()
        assert sim.stats.fluid.density_error < 2e-3
    assert np.abs(sim.state.particle_qd.numpy()).max() < 4.0 and np.abs(sim.state.body_qd.numpy()[0, :3]).max() < 4.0


def test_a_fluid_that_is_squeezed_is_reported():
    """A lid that no water can pass presses it into less room than it needs."""
    b = ModelBuilder()
    b.set_particle_radius(0.05)
    b.set_domain((0, 0, 0), (1, 0.5, 1))
    b.add_fluid_block((0, 0, 0), (1, 0.5, 0.4))
    lid = b.add_body(((0.5, 0.25, 0.45), (0, 0, 0, 1)), kinematic=True, linear_velocity=(0, 0, -1))
    b.add_shape_box(lid, None, 0.48, 0.24, 0.05)
    sim = Simulation(b.finalize(), dt=1 / 60)
    with pytest.raises(SimulationError, match="particle_density of body 'the fluid' is .*% too high on average"):
        for _ in range(5):
            sim.step()
    assert sim.stats.fluid.compression > 0.1


def test_boxes_full_of_fluid_leave_room_for_solids():
    b = ModelBuilder()
    b.set_particle_radius(0.05)
    b.add_shape_sphere(-1, ((0.5, 0.5, 0.5), (0, 0, 0, 1)), 0.3, label="rock")
    b.add_fluid_block((0, 0, 0), (1, 1, 1))
    x = b.finalize().particle_q.numpy()
    away = np.linalg.norm(x - 0.5, axis=1)
    assert away.min() > 0.3 + 0.7 * 0.05 and 800 < len(x) < 1000
    b.add_particles([[0.5, 0.5, 0.25]])
    with pytest.raises(SceneError, match=r"particle 1000: .* is inside the solid 'rock'"):
        b.finalize()


def test_particles_are_not_copied_into_worlds():
    inner = ModelBuilder()
    inner.add_fluid_block((0, 0, 0), (1, 1, 1))
    with pytest.raises(SceneError, match="particles cannot be copied into a world"):
        ModelBuilder().add_builder(inner)


def wet(device="cpu", dt=1 / 120) -> Simulation:
    b = ModelBuilder()
    b.set_particle_radius(0.05)
    b.set_domain((0, 0, 0), (0.5, 0.4, 0.8))
    b.add_fluid_block((0, 0, 0), (0.5, 0.4, 0.3), wall_viscosity=1e-2)
    b.add_ground_plane()
    for x in (0.15, 0.38):
        b.add_shape_box(b.add_body(((x, 0.2, 0.4), (0, 0, 0, 1))), None, 0.1, 0.1, 0.1, density=400.0)
    return Simulation(b.finalize(device=device), dt=dt, substeps=2)


def test_threads_do_not_change_the_bits():
    hashes = []
    for threads in (1, 2, 4):
        with config.scope(threads=threads):
            sim = wet()
            for _ in range(4):
                sim.step()
            hashes.append(sim.hash())
    assert hashes[0] == hashes[1] == hashes[2]


def test_the_emulated_gpu_gives_the_bits_of_the_cpu():
    hashes = []
    for device in ("cpu", "emu"):
        sim = wet(device, 0.004)
        sim.step()
        hashes.append(sim.hash())
    assert hashes[0] == hashes[1]


@pytest.mark.soak
def test_a_wave_full_of_boxes_for_a_thousand_frames():
    """What scenes/fluid_rigid.usda shows, with fewer of both: nothing is lost, nothing explodes."""
    radius, size = 0.04, np.array([2.4, 0.8, 1.2])
    b = ModelBuilder()
    b.set_particle_radius(radius)
    b.set_domain((0, 0, 0), size)
    b.add_fluid_block((0, 0, 0), (0.8, 0.8, 0.8), viscosity=1e-3)
    s = np.sqrt(0.5)
    for place, turn in (((0, 0, 0), (0, 0, 0, 1)), ((0, 0, 0), (0, s, 0, s)), ((2.4, 0, 0), (0, -s, 0, s)),
                        ((0, 0, 0), (-s, 0, 0, s)), ((0, 0.8, 0), (s, 0, 0, s))):  # fmt: skip
        b.add_shape_plane(-1, (place, turn))
    for n in range(18):
        at = (1.0 + 0.22 * (n % 6), 0.2 + 0.2 * (n // 6), 0.12)
        b.add_shape_box(b.add_body((at, (0, 0, 0, 1))), None, 0.08, 0.08, 0.08, density=200.0 + 100.0 * (n % 9))
    sim = Simulation(b.finalize(), dt=1 / 60)
    for _ in range(1000):
        sim.step()
        q, x = sim.state.body_q.numpy(), sim.state.particle_q.numpy()
        assert np.isfinite(q).all() and np.isfinite(sim.state.body_qd.numpy()).all()
        assert (x >= 0).all() and (x <= size.astype(np.float32)).all()
        assert (q[:, :3] > -0.1).all() and (q[:, :2] < size[:2] + 0.1).all()
    assert np.abs(sim.state.particle_qd.numpy()).max() < 2.0  # it has come to rest
    light = q[:, 2][[n for n in range(18) if 200 + 100 * (n % 9) < 600]]
    assert light.mean() > 0.2  # wood swims
