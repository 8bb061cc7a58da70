"""ModelBuilder's particles: fluids, blocks of particles, the domain, and the points of solids that keep fluids out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.errors import SceneError
from engine.geom.pose import Floats, as_pose, as_vector, pose_multiply, quat_to_matrix
from engine.geom.shape_distance import signed_distance
from engine.geom.shapes import ShapeType, bounding_radius
from engine.sim import boundary_samples as samples
from engine.sim.builder_emitters import EmitterMethods, emitter_fields
from engine.sim.builder_records import ShapeRecord
from engine.state.schema import UNLIMITED, WORLD_BODY

ZERO = np.zeros(3)
FAR = np.full(3, UNLIMITED)
MOST_PARTICLES = 1 << 27
NO_SLIP = 5.0  # viscosity against solids, of that inside, which holds the fluid beside a wall still
CLEAR = 0.8  # radii that a particle which fills a box keeps from solids
OVERLAP = 1.6  # radii, and from particles that were there before
OVERFULL = 1e-3  # of the particles that a closed domain has room for, more than those


@dataclass(frozen=True, slots=True)
class Domain:
    """The box around all particles."""

    lower: Floats  # (3,) m
    upper: Floats
    walls: bool  # of the axes that are not periodic
    periodic: tuple[int, ...]  # axes whose faces are one

    @property
    def period(self) -> Floats:
        """(3,) m; 0 for axes that do not repeat themselves."""
        return np.array([(self.upper - self.lower)[a] if a in self.periodic else 0.0 for a in range(3)])


@dataclass(frozen=True, slots=True)
class FluidRecord:
    """A fluid."""

    label: str
    density: float  # kg/m³ at rest
    viscosity: float  # m²/s
    wall_viscosity: float  # m²/s
    surface_tension: float  # N/m


class ParticleMethods(EmitterMethods):
    """Fluids are sets of particles of one radius, `particle_radius` (m): half the distance of neighbours at rest."""

    def set_particle_radius(self, radius: float) -> None:
        """The radius of all particles of the scene (m), before any are added. Raises SceneError if not positive."""
        with self._errors_of("particles", "radius"):
            value = float(as_vector([radius], 1)[0])
            if value <= 0.0:
                raise ValueError(f"must be positive, got {value:g}")
            if self.particles or self.emitters:
                raise ValueError("cannot change after particles were added")
        self.particle_radius = value

    def set_domain(self, lower: Any, upper: Any, walls: bool = True, *, periodic: str = "") -> None:
        """A box (world, m) around all particles; `walls`: its faces hold the fluid, otherwise what leaves is removed.

        periodic: axes, "x" to "xyz", at whose ends what leaves the box on one side comes in on the other. Particles and
        what solids do to them repeat themselves there; contacts between bodies do not.
        Raises SceneError for a box without volume, a periodic one shorter than 4 radii, or an unknown axis.
        """
        with self._errors_of("domain"):
            low, high = as_vector(lower), as_vector(upper)
            if not (high > low).all():
                raise ValueError(f"has no volume: {low.tolist()} to {high.tolist()}")
            if not isinstance(periodic, str) or set(periodic) - set("xyz"):
                raise ValueError(f'periodic takes some of the axes "xyz", got {periodic!r}')
        self.domain = Domain(low, high, bool(walls), tuple(a for a in range(3) if "xyz"[a] in periodic))

    def add_fluid(
        self,
        density: float = 1000.0,
        viscosity: float = 1e-6,
        wall_viscosity: float = 0.0,
        *,
        surface_tension: float = 0.0,
        label: str | None = None,
    ) -> int:
        """A fluid; returns its index. density in kg/m³; kinematic viscosities, inside and against solids, in m²/s;
        surface_tension in N/m."""
        label = label or f"fluid_{len(self.fluids)}"
        with self._errors_of(label):
            numbers = as_vector([density, viscosity, wall_viscosity, surface_tension], 4)
            if numbers[0] <= 0.0:
                raise ValueError(f"density must be positive, got {density:g}")
            if numbers.min() < 0.0:
                wrong = int(np.argmin(numbers))
                what = ("", "viscosity", "viscosity", "surface tension")[wrong]
                raise ValueError(f"{what} must be at least 0, got {numbers[wrong]:g}")
        self.fluids.append(FluidRecord(label, *(float(x) for x in numbers)))
        return len(self.fluids) - 1

    def add_particles(
        self, positions: Any, velocities: Any = None, fluid: int = 0, *, fill: bool = False
    ) -> int:
        """Particles of a fluid at `positions` (n, 3), world, with `velocities` (n, 3) or one for all.

        Returns the index of the first. `finalize` refuses particles inside solids, but with `fill` leaves those out
        that have no room there, or where particles are that were added before; the ones after them then move up.
        Particles at the place of another are refused.
        Raises SceneError naming the fluid and the particle for numbers that are not finite.
        """
        with self._errors_of("particles", "fluid"):
            if isinstance(fluid, bool) or not isinstance(fluid, int | np.integer) or not 0 <= fluid < len(self.fluids):
                raise ValueError(f"{fluid!r} does not exist ({len(self.fluids)} fluids)")
        with self._errors_of(self.fluids[fluid].label, "particles"):
            q = np.asarray(positions, np.float64).reshape(-1, 3)
            qd = np.broadcast_to(np.asarray(ZERO if velocities is None else velocities, np.float64), q.shape)
            for what, values in (("position", q), ("velocity", qd)):
                bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
                if len(bad):
                    raise ValueError(f"{what} of particle {bad[0]} is not finite: {values[bad[0]].tolist()}")
        first = self.particle_count
        if first + len(q) > MOST_PARTICLES:
            raise SceneError(self.source, "particles", f"more than {MOST_PARTICLES} particles")
        self.particles.append((q, np.array(qd), int(fluid), bool(fill)))
        return first

    def add_fluid_block(
        self,
        lower: Any,
        upper: Any,
        fluid: int | None = None,
        *,
        velocity: Any = None,
        density: float = 1000.0,
        viscosity: float = 1e-6,
        wall_viscosity: float = 0.0,
        label: str | None = None,
    ) -> int:
        """A box full of fluid (world, m): particles 2 radii apart, the first one radius from the faces; where solids
        or particles added before are, there is none (`fill` of `add_particles`).

        fluid: an index that `add_fluid` gave; None makes a new one of density, viscosity and label. Returns the index
        of the first particle. Raises SceneError for a box without room for a particle.
        """
        index = self.add_fluid(density, viscosity, wall_viscosity, label=label) if fluid is None else fluid
        with self._errors_of("fluid block"):
            low, high = as_vector(lower), as_vector(upper)
            spacing = 2.0 * self.particle_radius
            count = np.floor((high - low) / spacing + 1e-4)
            if not (high > low).all() or count.min() < 1:
                raise ValueError(f"has no room for a particle of radius {self.particle_radius:g}: {low} to {high}")
            if count.prod() > MOST_PARTICLES:
                raise ValueError(f"would hold {count.prod():.3g} particles, more than {MOST_PARTICLES}")
            axes = [low[a] + self.particle_radius + spacing * np.arange(int(count[a])) for a in range(3)]
            lattice = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
        return self.add_particles(lattice, velocity, index, fill=True)

    @property
    def particle_count(self) -> int:
        return sum(len(q) for q, _, _, _ in self.particles)


def particle_fields(builder: ParticleMethods) -> dict[str, Any]:
    """The Model's fields about particles. Raises SceneError for particles outside the domain, inside solids or one
    another, for more than there is room for, and for emitters inside solids."""
    sets = builder.particles
    q = np.vstack([np.zeros((0, 3)), *(q for q, _, _, _ in sets)])
    qd = np.vstack([np.zeros((0, 3)), *(qd for _, qd, _, _ in sets)])
    fluid = np.concatenate([np.zeros(0, int), *(np.full(len(q), f) for q, _, f, _ in sets)])
    fill = np.concatenate([np.zeros(0, bool), *(np.full(len(q), f) for q, _, _, f in sets)])
    room = _with_room(builder, q, fill)
    q, qd, fluid = q[room], qd[room], fluid[room]
    emitters = emitter_fields(builder)
    _check_nozzles(builder)
    wet = np.vstack([q, emitters["emitter_point"]])  # where there is or will be fluid
    points, bodies, weights = _boundary(builder, wet) if len(wet) else (np.zeros((0, 3)), np.zeros(0, int), np.zeros(0))
    _check_room(builder, len(q))
    fluids = builder.fluids
    lower, upper, period = _faces(builder)
    return {
        "domain_lower": [lower],
        "domain_upper": [upper],
        "domain_period": [period],
        "domain_open": [int(builder.domain is not None and not builder.domain.walls)],
        **emitters,
        "particle_radius": [builder.particle_radius],
        "particle_q": q,
        "particle_qd": qd,
        "particle_fluid": fluid,
        "fluid_density": np.array([f.density for f in fluids]),
        "fluid_viscosity": np.array([f.viscosity for f in fluids]),
        "fluid_wall_viscosity": np.array([f.wall_viscosity for f in fluids]),
        "fluid_surface_tension": np.array([f.surface_tension for f in fluids]),
        "boundary_q": points,
        "boundary_body": bodies,
        "boundary_volume": weights,
    }


def _with_room(builder: ParticleMethods, q: Floats, fill: np.ndarray) -> np.ndarray:
    """(n,) bool: the particles that stay. Raises SceneError for the first inside a solid, or where another is, unless
    it just fills a box."""
    stay = np.ones(len(q), bool)
    for shape, near, away in _near_solids(builder, q):
        _refuse(builder, q, near[~fill[near] & (away < 0.0)], f"inside the solid '{shape.label}'")
        stay[near[fill[near] & (away < CLEAR * builder.particle_radius)]] = False
    return stay & _apart(builder)


def _near_solids(builder: ParticleMethods, q: Floats) -> Iterator[tuple[ShapeRecord, np.ndarray, Floats]]:
    """Each solid, wherever it repeats itself, with the indices of the places near it and how far from it they are."""
    along = np.argsort(q[:, 0], kind="stable")
    x = q[along, 0]
    ways = _repeats(builder.domain)
    for shape, way in ((s, w) for s in solids(builder) for w in ways) if len(q) else ():
        world = _world_pose(builder, shape) + np.append(way, np.zeros(4))
        reach = bounding_radius(shape.kind, shape.scale, shape.hull) + CLEAR * builder.particle_radius
        near = along[np.searchsorted(x, world[0] - reach) : np.searchsorted(x, world[0] + reach, "right")]
        near = np.sort(near[(np.abs(q[near] - world[:3]) <= reach).all(axis=1)])
        if len(near):
            local = (q[near] - world[:3]) @ quat_to_matrix(world[3:])
            yield shape, near, signed_distance(shape.kind, shape.scale, shape.hull, local)


def _apart(builder: ParticleMethods) -> np.ndarray:
    """(n,) bool: without those that fill a box where particles added before are. Raises SceneError for others that are
    at the place of another to a thousandth of a radius: nothing would ever part them."""
    stay: list[np.ndarray] = []
    for i, (q, _, _, fill) in enumerate(builder.particles):
        own = np.ones(len(q), bool)
        if fill:
            for before, *_ in builder.particles[:i]:
                own &= ~_close(before, q, OVERLAP * builder.particle_radius)
        else:
            places = np.round(q / (1e-3 * builder.particle_radius)).astype(np.int64)
            _, first = np.unique(places, axis=0, return_index=True)
            twice = np.setdiff1d(np.arange(len(q)), first) + sum(len(x) for x in stay)
            _refuse(builder, np.vstack([before for before, *_ in builder.particles]), twice, "where another one is")
        stay.append(own)
    return np.concatenate([np.zeros(0, bool), *stay])


def _close(there: Floats, q: Floats, gap: float) -> np.ndarray:
    """(n,) bool: which of the places q are nearer than `gap` to any of `there`."""
    out = np.zeros(len(q), bool)
    if not len(there) or not len(q):
        return out
    lower = np.maximum(there.min(axis=0), q.min(axis=0)) - gap
    upper = np.minimum(there.max(axis=0), q.max(axis=0)) + gap
    near = np.flatnonzero(((q >= lower) & (q <= upper)).all(axis=1))
    there = there[((there >= lower) & (there <= upper)).all(axis=1)]
    if not len(near) or not len(there):
        return out
    dims = np.floor((upper - lower) / gap).astype(np.int64) + 3

    def cells(x: Floats) -> np.ndarray:
        return np.asarray(np.floor((x - lower) / gap).astype(np.int64) + 1)

    def numbers(c: np.ndarray) -> np.ndarray:
        return np.asarray((c[:, 0] * dims[1] + c[:, 1]) * dims[2] + c[:, 2])

    keys = numbers(cells(there))
    order = np.argsort(keys, kind="stable")
    keys, there = keys[order], there[order]
    for way in np.stack(np.meshgrid(*[(-1, 0, 1)] * 3, indexing="ij"), axis=-1).reshape(-1, 3):
        wanted = numbers(cells(q[near]) + way)
        begin, end = np.searchsorted(keys, wanted), np.searchsorted(keys, wanted, "right")
        for n in range(int((end - begin).max())):
            some = begin + n < end
            apart = np.linalg.norm(there[begin[some] + n] - q[near[some]], axis=1)
            out[near[some]] |= apart < gap
    return out


def _check_room(builder: ParticleMethods, number: int) -> None:
    """Raises SceneError for more particles than a domain without a way out has room for."""
    domain = builder.domain
    if domain is None or not (domain.walls or len(domain.periodic) == 3):
        return
    room = np.prod((domain.upper - domain.lower) / (2.0 * builder.particle_radius))
    if number > (1.0 + OVERFULL) * room:
        raise SceneError(builder.source, "domain", f"has room for {int(room + 1e-6)} particles, there are {number}")


def _check_nozzles(builder: ParticleMethods) -> None:
    """Raises SceneError for an emitter that starts inside a solid."""
    for e, emitter in enumerate(builder.emitters):
        points = emitter.points
        wrong = {shape.label: int((away < 0.0).sum()) for shape, _, away in _near_solids(builder, points)}
        for label, number in wrong.items():
            if number:
                reason = f"{number} of its {len(points)} particles start inside the solid '{label}'"
                raise SceneError(builder.source, f"emitter {e}", reason)


def _faces(builder: ParticleMethods) -> tuple[Floats, Floats, Floats]:
    """(lower, upper corner, period) of walls and periodic faces; axes without either are unlimited."""
    domain = builder.domain
    if domain is None:
        return -FAR, FAR, ZERO
    with builder._errors_of("domain"):
        for a in domain.periodic:
            if domain.period[a] < 4.0 * builder.particle_radius:
                raise ValueError(f"is periodic along {'xyz'[a]} after {domain.period[a]:g} m, less than 4 radii")
    return domain.lower, domain.upper, domain.period


def _repeats(domain: Domain | None) -> Floats:
    """(n, 3) how far away a domain repeats what is in it, itself included: one period to each side."""
    period = ZERO if domain is None else domain.period
    ways = [(-p, 0.0, p) if p > 0.0 else (0.0,) for p in period]
    return np.stack(np.meshgrid(*ways, indexing="ij"), axis=-1).reshape(-1, 3)


def _boundary(builder: ParticleMethods, q: Floats) -> tuple[Floats, np.ndarray, Floats]:
    """(position in the body frame, body, volume) of the points of all solids, bodies in order, the world last."""
    radius, domain = builder.particle_radius, builder.domain
    layers: dict[int, list[Floats]] = {}
    lower, upper, period = q.min(axis=0) - 4.0 * radius, q.max(axis=0) + 4.0 * radius, ZERO
    if domain is not None:
        lower, upper, period = domain.lower, domain.upper, domain.period
        _refuse(builder, q, np.flatnonzero(((q < lower) | (q > upper)).any(axis=1)), "outside the domain")
        if domain.walls:
            deep = np.where(period > 0.0, 0.0, samples.DEPTH * radius)
            layers[WORLD_BODY] = [samples.box_layer(lower - deep, upper + deep, 2.0 * radius, domain.periodic)]
    for shape in solids(builder):
        if shape.kind == ShapeType.PLANE:
            points = samples.plane_layer(_world_pose(builder, shape), lower, upper, radius)
        else:
            with builder._errors_of(shape.label):
                points = _moved(_layer(shape, radius), shape.pose)
        if shape.body == WORLD_BODY:
            if shape.kind != ShapeType.PLANE:  # a plane goes on behind periodic faces: it is there already
                turns = np.floor((points - lower) / np.where(period > 0.0, period, np.inf))
                points = points - np.where(period > 0.0, turns * period, 0.0)
            felt = (points >= lower) & np.where(period > 0.0, points < upper, points <= upper)
            if not (domain is not None and domain.walls):
                felt |= period == 0.0  # behind walls nothing is felt
            points = points[felt.all(axis=1)]
        layers.setdefault(shape.body, []).append(points)
    order = sorted(layers, key=lambda body: (body == WORLD_BODY, body))
    sets = [np.vstack(layers[body]) for body in order]
    weights: dict[bytes, Floats] = {}  # of equal bodies once
    for body, points in zip(order, sets, strict=True):
        if points.tobytes() not in weights:
            of_world = (lower, period) if body == WORLD_BODY else ()
            weights[points.tobytes()] = samples.volumes(points, radius, *of_world)
    return (
        np.vstack([np.zeros((0, 3)), *sets]),
        np.concatenate([np.zeros(0, int), *(np.full(len(p), body) for body, p in zip(order, sets, strict=True))]),
        np.concatenate([np.zeros(0), *(weights[p.tobytes()] for p in sets)]),
    )


def solids(builder: ParticleMethods) -> list[ShapeRecord]:
    """The shapes that fluids feel."""
    return [s for s in builder.shapes if s.options.collide and not s.options.sensor]


def _world_pose(builder: ParticleMethods, shape: ShapeRecord) -> Floats:
    of_body = builder.bodies[shape.body].pose if shape.body != WORLD_BODY else as_pose(None)
    return np.asarray(pose_multiply(of_body, shape.pose))


def _layer(shape: ShapeRecord, radius: float) -> Floats:
    """Points of a shape in its own frame."""
    scale = shape.scale
    match shape.kind:
        case ShapeType.BOX:
            return samples.solid_box_layer(scale, radius)
        case ShapeType.SPHERE:
            return samples.sphere_layer(float(scale[0]), radius)
        case ShapeType.CYLINDER:
            return samples.cylinder_layer(float(scale[0]), float(scale[1]), radius)
        case ShapeType.CAPSULE:
            return samples.capsule_layer(float(scale[0]), float(scale[1]), radius)
        case ShapeType.CONE:
            half = scale[[0, 0, 1]]
        case ShapeType.ELLIPSOID:
            half = scale
        case _:
            assert shape.hull is not None
            half = np.abs(shape.hull.vertices).max(axis=0)
    return samples.level_layer(lambda x: signed_distance(shape.kind, scale, shape.hull, x), half, radius)


def _moved(points: Floats, pose: Floats) -> Floats:
    return points @ quat_to_matrix(pose[3:]).T + pose[:3]


def _refuse(builder: ParticleMethods, q: Floats, bad: np.ndarray, where: str) -> None:
    """SceneError about the first of the particles `bad`, which are at a wrong place."""
    if len(bad):
        more = f" ({len(bad)} such particles)" if len(bad) > 1 else ""
        place = ", ".join(f"{x:.4g}" for x in q[bad[0]])
        raise SceneError(builder.source, f"particle {bad[0]}", f"at ({place}) is {where}{more}")
