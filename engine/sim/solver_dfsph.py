"""DFSPH: incompressible fluids of particles (Bender & Koschier 2017), with solids as points (Akinci et al. 2012).

One step of h seconds:

    neighbours ─► density, factor ─► divergence-free solve ─► gravity, viscosity ─► constant-density solve ─► move

Both solves are Jacobi iterations for a pressure κ (over the density at rest) that is never negative. With
a_i = −Σ V_j (κ_i + κ_j ρ_j/ρ_i) ∇W_ij, iterations add ω (ρ* − 1) / (h² D_i), or ω (dρ/dt)* / (h D_i), to κ_i, where
ρ* is the relative density after the step, and D_i = |Σ V_j ∇W_ij|² + Σ |V_j ∇W_ij|² is what κ_i does to it (points of
solids are only in the first sum: they feel no pressure of their own). The pressures of the last step start the next.

Each thread adds up its own neighbours in the order of the list: no atomics, and the same bits on any number of threads.
"""

# mypy: disable-error-code="call-arg"
# (structs have no constructor that mypy sees)

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.compiler import lang as k
from engine.context import launch, zeros
from engine.errors import SimulationError
from engine.kernels.reduce import Bounds, sum_rows
from engine.sim.cubic_spline import slope, weight
from engine.sim.fluid_bodies import FluidBodies
from engine.sim.particle_neighbours import GROUP, Motion, Neighbours, Place, drag_strength
from engine.sim.solver_soft_step_bodies import BodyRows
from engine.sim.stats import FluidStats, StageClock
from engine.state.model import Model
from engine.state.tables import State

OMEGA = 0.5  # of the Jacobi iterations
WARM_START = 0.5  # of the last pressure; all of it needs fewer iterations, but a tank at rest then stays restless
# Most of the excess of relative density that a step takes back, so that particles placed too close do not explode; of
# much excess a share, so that particles that were pressed into a wall come out of it.
PUSH, PUSH_SHARE = 0.005, 0.1
FEW_NEIGHBOURS = 20  # a particle with fewer is spray: no divergence is kept from it


@dataclass(frozen=True)
class Settings:
    """What the solver can be told. Errors are averages, relative to the density at rest."""

    density_error: float = 1e-3
    divergence_error: float = 1e-3  # per step
    least_iterations: int = 2
    most_iterations: int = 100
    cfl: float = 0.4  # particle diameters that the fastest particle may travel in a step
    longest_step: float = 0.005  # s
    shortest_step: float = 1e-5  # s; a faster fluid is reported
    solve_divergence: bool = True

    def __post_init__(self) -> None:
        for name in ("density_error", "divergence_error", "cfl", "longest_step", "shortest_step"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0.0):
                raise ValueError(f"{name} must be a positive number, got {value!r}")
        if self.shortest_step > self.longest_step:
            raise ValueError(f"shortest_step {self.shortest_step:g} is above longest_step {self.longest_step:g}")
        if not 1 <= self.least_iterations <= self.most_iterations:
            raise ValueError(f"iterations must be from 1 up, got {self.least_iterations} to {self.most_iterations}")


@k.kernel(shape="lanes")
def measure_density(
    s: State,
    place: k.array(dtype=Place, layout="rows"),
    velocity: k.array(dtype=Motion, layout="rows"),
    neighbour: k.array(dtype=int, ndim=3),
    count: k.array(dtype=int),
    support: float,
    nparticle: int,
    factor: k.array(dtype=float),
    rate: k.array(dtype=float),
):
    """Relative density, its rate of change in 1/s, and 1 / D."""
    group, lane = k.tid()
    i = group * GROUP + lane
    if i >= len(count):
        return
    here = place[i]
    own = velocity[i].v
    density = here.volume * weight(0.0, support)
    total = k.vec3(0.0)
    squares = 0.0
    compression = 0.0
    for n in range(count[i]):
        j = neighbour[group, n, lane]
        there = place[j]
        gap = here.x - there.x
        gap_sq = k.dot(gap, gap)
        density += there.volume * weight(gap_sq, support)
        gradient = gap * (there.volume * slope(gap_sq, support))
        total += gradient
        squares += k.select(j < nparticle, k.dot(gradient, gradient), 0.0)
        compression += k.dot(own - velocity[j].v, gradient)
    s.particle_density[i] = density
    rate[i] = compression
    resistance = k.dot(total, total) + squares
    factor[i] = k.select(resistance > 1.0e-6, 1.0 / k.select_max(resistance, 1.0e-6), 0.0)


@k.requires(lambda tid, m, s, velocity, size: tid < s.particle_q.shape[0] and 0 <= s.particle_fluid[tid]
    and s.particle_fluid[tid] < m.fluid_density.shape[0] and tid < velocity.shape[0]
    and tid < size.shape[0])  # fmt: skip
@k.kernel
def begin_velocities(m: Model, s: State, velocity: k.array(dtype=Motion, layout="rows"), size: k.array(dtype=k.vec3)):
    """Velocities to rows; their squared size thrice, for the bounds."""
    i = k.tid()
    v = s.particle_qd[i]
    fluid = s.particle_fluid[i]
    velocity[i] = Motion(v, m.fluid_density[fluid] * m.fluid_viscosity[fluid])
    size[i] = k.vec3(k.dot(v, v))


@k.func
def divergence(
    place: k.array(dtype=Place, layout="rows"),
    field: k.array(dtype=Motion, layout="rows"),
    neighbour: k.array(dtype=int, ndim=3),
    count: k.array(dtype=int),
    support: float,
    group: int,
    lane: int,
) -> float:
    """What the vectors of `field` (velocities, accelerations) do to the relative density of a particle."""
    i = group * GROUP + lane
    here = place[i]
    own = field[i].v
    sum = 0.0
    for n in range(count[i]):
        j = neighbour[group, n, lane]
        there = place[j]
        gap = here.x - there.x
        sum += there.volume * slope(k.dot(gap, gap), support) * k.dot(own - field[j].v, gap)
    return sum


@k.kernel(shape="lanes")
def measure_divergence(
    place: k.array(dtype=Place, layout="rows"),
    velocity: k.array(dtype=Motion, layout="rows"),
    neighbour: k.array(dtype=int, ndim=3),
    count: k.array(dtype=int),
    support: float,
    rate: k.array(dtype=float),
):
    """d(relative density)/dt of the velocities, 1/s."""
    group, lane = k.tid()
    i = group * GROUP + lane
    if i >= len(count):
        return
    rate[i] = divergence(place, velocity, neighbour, count, support, group, lane)


@k.requires(lambda tid, m, s, stored, push: tid < s.particle_q.shape[0] and 0 <= s.particle_fluid[tid]
    and s.particle_fluid[tid] < m.fluid_density.shape[0] and tid < stored.shape[0] and tid < push.shape[0])  # fmt: skip
@k.kernel
def begin_pressure(
    m: Model, s: State, stored: k.array(dtype=float, layout="planes"), scale: float, push: k.array(dtype=float)
):
    """The pressure (Pa) that iterations start with."""
    i = k.tid()
    push[i] = m.fluid_density[s.particle_fluid[i]] * stored[i] * scale


@k.requires(lambda tid, m, s, push, stored: tid < push.shape[0] and tid < s.particle_q.shape[0]
    and 0 <= s.particle_fluid[tid] and s.particle_fluid[tid] < m.fluid_density.shape[0]
    and tid < stored.shape[0])  # fmt: skip
@k.kernel
def store_pressure(
    m: Model, s: State, push: k.array(dtype=float), scale: float, stored: k.array(dtype=float, layout="planes")
):
    i = k.tid()
    stored[i] = push[i] / m.fluid_density[s.particle_fluid[i]] * scale


@k.kernel(shape="lanes")
def press(
    m: Model,
    s: State,
    place: k.array(dtype=Place, layout="rows"),
    push: k.array(dtype=float),
    neighbour: k.array(dtype=int, ndim=3),
    count: k.array(dtype=int),
    support: float,
    acceleration: k.array(dtype=Motion, layout="rows"),
):
    """Acceleration by pressure."""
    group, lane = k.tid()
    i = group * GROUP + lane
    if i >= len(count):
        return
    here = place[i]
    own = push[i]
    sum = k.vec3(0.0)
    for n in range(count[i]):
        j = neighbour[group, n, lane]
        there = place[j]
        gap = here.x - there.x
        sum += gap * (there.volume * (own + push[j]) * slope(k.dot(gap, gap), support))
    acceleration[i] = Motion(sum * (-1.0 / m.fluid_density[s.particle_fluid[i]]), 0.0)


@k.kernel(shape="lanes")
def correct_pressure(
    m: Model,
    s: State,
    place: k.array(dtype=Place, layout="rows"),
    acceleration: k.array(dtype=Motion, layout="rows"),
    neighbour: k.array(dtype=int, ndim=3),
    count: k.array(dtype=int),
    support: float,
    source: k.array(dtype=float),
    factor: k.array(dtype=float),
    time: float,
    strength: float,
    fewest: int,
    push: k.array(dtype=float),
    error: k.array(dtype=float),
):
    """One Jacobi step: what the accelerations leave of `source` after `time` changes the pressure."""
    group, lane = k.tid()
    i = group * GROUP + lane
    if i >= len(count):
        return
    rest = source[i] + time * divergence(place, acceleration, neighbour, count, support, group, lane)
    change = strength * rest * factor[i] * m.fluid_density[s.particle_fluid[i]]
    enough = count[i] >= fewest
    push[i] = k.select(enough, k.select_max(push[i] + change, 0.0), 0.0)
    error[i] = k.select(enough, k.select_max(rest, 0.0), 0.0)


@k.requires(lambda tid, s, rate: tid < s.particle_q.shape[0] and tid < rate.shape[0])
@k.kernel
def predict_density(s: State, rate: k.array(dtype=float), h: float):
    """rate := relative density after h, less 1. What is too dense already is spread out over several steps."""
    i = k.tid()
    excess = s.particle_density[i] - 1.0
    rate[i] = k.select_min(excess, k.select_max(PUSH, PUSH_SHARE * excess)) + h * rate[i]


@k.requires(lambda tid, s, acceleration: tid < acceleration.shape[0] and tid < s.particle_q.shape[0])
@k.kernel
def accelerate(s: State, acceleration: k.array(dtype=Motion, layout="rows"), h: float):
    i = k.tid()
    s.particle_qd[i] += h * acceleration[i].v


@k.kernel(shape="lanes")
def add_forces(
    m: Model,
    s: State,
    place: k.array(dtype=Place, layout="rows"),
    velocity: k.array(dtype=Motion, layout="rows"),
    neighbour: k.array(dtype=int, ndim=3),
    count: k.array(dtype=int),
    support: float,
    nparticle: int,
    h: float,
):
    """Gravity, and viscosity as a Laplacian of the velocities.

    Between fluids acts the mean of their dynamic viscosities, so that momentum is kept.
    """
    group, lane = k.tid()
    i = group * GROUP + lane
    if i >= len(count):
        return
    here = place[i]
    v = velocity[i].v
    fluid = s.particle_fluid[i]
    inner = velocity[i].drag
    wall = m.fluid_wall_viscosity[fluid] * m.fluid_density[fluid]
    sum = k.vec3(0.0)
    if inner > 0.0 or wall > 0.0:
        for n in range(count[i]):
            j = neighbour[group, n, lane]
            there = place[j]
            gap = here.x - there.x
            moving = velocity[j]
            drag = k.select(j < nparticle, 0.5 * (inner + moving.drag), wall)
            sum += gap * (drag * there.volume * drag_strength(gap, v - moving.v, support))
    s.particle_qd[i] = v + h * (m.gravity[0] + sum / m.fluid_density[fluid])


@k.requires(lambda tid, s, bad: tid < s.particle_q.shape[0] and tid < bad.shape[0])
@k.kernel
def mark_bad(s: State, bad: k.array(dtype=int)):
    i = k.tid()
    x = s.particle_q[i]
    v = s.particle_qd[i]
    bad[i] = 0 if k.isfinite(k.dot(x, x)) and k.isfinite(k.dot(v, v)) else 1


@k.requires(lambda tid, m, s, clamped, bad: tid < s.particle_q.shape[0] and 1 <= m.gravity.shape[0]
    and tid < clamped.shape[0] and tid < bad.shape[0])  # fmt: skip
@k.kernel
def move(m: Model, s: State, h: float, clamped: k.array(dtype=int), bad: k.array(dtype=int)):
    """New positions. `clamped`: those that the domain's walls had to stop, as their points let them by."""
    i = k.tid()
    x = s.particle_q[i] + h * s.particle_qd[i]
    v = s.particle_qd[i]
    low = m.domain_lower[0]
    high = m.domain_upper[0]
    inside = k.vec3(
        k.select_max(low.x, k.select_min(x.x, high.x)),
        k.select_max(low.y, k.select_min(x.y, high.y)),
        k.select_max(low.z, k.select_min(x.z, high.z)),
    )
    outside = x.x != inside.x or x.y != inside.y or x.z != inside.z
    known = k.isfinite(x.x) and k.isfinite(x.y) and k.isfinite(x.z)
    clamped[i] = 1 if outside and known else 0
    bad[i] = 0 if known else 1
    if outside and known:
        if x.x != inside.x:
            v.x = 0.0
        if x.y != inside.y:
            v.y = 0.0
        if x.z != inside.z:
            v.z = 0.0
        s.particle_qd[i] = v
        x = inside
    s.particle_q[i] = x


class Dfsph:
    """Advances the particles of `state`, in as many steps as the CFL condition asks for.

    rows: the bodies, as the rigid solver has them between its substeps. A frame is `begin`, then one or more `advance`,
    each followed by a substep of the bodies.
    """

    def __init__(self, model: Model, state: State, rows: BodyRows, settings: Settings | None = None):
        self.model, self.state = model, state
        self.settings = settings or Settings()
        n, nb, device = model.count["nparticle"], model.count["nboundary"], model.device
        radius = float(model.particle_radius.numpy()[0])
        self.diameter, self.support = 2.0 * radius, 4.0 * radius
        self.device, self.nparticle = device, n
        self.near = Neighbours(model, state, self.support, self.diameter**3)
        bodies = FluidBodies(model, state, rows, self.near)
        self._bodies = bodies if bodies.npoint else None
        self._acceleration = zeros(n + nb, dtype=Motion, device=device, layout="rows")
        self._push = zeros(n + nb, dtype=float, device=device)  # those of the points of solids stay 0
        self._factor, self._source = (zeros(n, dtype=float, device=device) for _ in range(2))
        self._error = zeros((1, n), dtype=float, device=device)
        self._sum = zeros(1, dtype=float, device=device)
        self._flags = zeros((2, n), dtype=int, device=device)
        self._flag_sums = zeros(2, dtype=int, device=device)
        self._size = zeros(n, dtype=k.vec3, device=device)
        self._bounds = Bounds(n, device)
        viscosity = max(float(model.fluid_viscosity.numpy().max()), float(model.fluid_wall_viscosity.numpy().max()))
        # explicit diffusion: Morris et al. 1997, with the smoothing length of a cubic spline
        self._viscous_step = 0.125 * self.diameter**2 / viscosity if viscosity > 0.0 else math.inf
        self.stats = FluidStats(particles=n)
        self._frame = 0
        self._check_finite()

    def begin(self, frame: int) -> None:
        """Of a frame: checks the numbers. Raises SimulationError naming a particle whose state is not finite."""
        self.stats = FluidStats(particles=self.nparticle)
        self._frame = frame
        self._sweep(mark_bad, self.state, self._flags[1])
        self._flags[0].zero_()
        self._count_flags()

    def advance(self, clock: StageClock, span: float) -> None:
        """`span` seconds, at the end of which the bodies are moved. Raises SimulationError as `begin`."""
        left = span
        while left > 1e-6 * span:
            left -= self._step(clock, left, span - left)

    def _step(self, clock: StageClock, left: float, ahead: float) -> float:
        """One step, at most `left` long, `ahead` seconds after the bodies were moved; returns its length."""
        bodies = self._bodies
        with clock("neighbours"):
            if bodies:
                bodies.place(ahead)
            self.near.update()
            if bodies:
                bodies.update()
                bodies.move(ahead)
        with clock("density"):
            self._begin_velocities()
            self._sweep_lists(measure_density, self.state, self.near.place, self.near.velocity, *self._list(),
                              self.support, self.nparticle, self._factor, self._source)  # fmt: skip
        h = self._step_length(left)
        if self.settings.solve_divergence:
            with clock("divergence"):
                self._solve_divergence(h)
        with clock("forces"):
            self._add_forces(h, ahead)
        with clock("pressure"):
            self._solve_density(h, ahead + h)
        with clock("move"):
            self._sweep(move, self.model, self.state, h, self._flags[0], self._flags[1])
            self._count_flags()
        self.stats.steps += 1
        self.stats.time_step = h
        return h

    # -- the stages ----------------------------------------------------------------------------------------------------

    def _sweep(self, kernel: Any, *inputs: Any) -> None:
        launch(kernel, self.nparticle, inputs=list(inputs), device=self.device)

    def _sweep_lists(self, kernel: Any, *inputs: Any) -> None:
        launch(kernel, (self.near.groups, GROUP), inputs=list(inputs), device=self.device)

    def _list(self) -> tuple[Any, Any]:
        return self.near.list, self.near.count

    def _step_length(self, left: float) -> float:
        """The CFL condition for the velocities of now; what is left of the frame is divided evenly."""
        self._bounds.run(self._size, self._size, self.nparticle)
        gravity = float(np.linalg.norm(self.model.gravity.numpy()[0]))
        speed = math.sqrt(float(self._bounds.upper.numpy()[0, 0]))
        if self._bodies:
            speed = max(speed, self._bodies.fastest())
        fastest = speed + gravity * min(left, self.settings.longest_step)
        h = min(self.settings.longest_step, self._viscous_step)
        if fastest > 0.0:
            h = min(h, self.settings.cfl * self.diameter / fastest)
        if h < self.settings.shortest_step:
            self.stats.short_steps += 1
            h = self.settings.shortest_step
        return left / math.ceil(left / h - 1e-6)

    def _begin_velocities(self) -> None:
        self._sweep(begin_velocities, self.model, self.state, self.near.velocity, self._size)

    def _solve_divergence(self, h: float) -> None:
        s, stats = self.state, self.stats
        self._sweep(begin_pressure, self.model, s, s.particle_pressure_rate, WARM_START / h, self._push)
        limit = self.settings.divergence_error / h
        count, error = self._iterate(h, OMEGA / h, FEW_NEIGHBOURS, limit, 1)
        self._sweep(store_pressure, self.model, s, self._push, h, s.particle_pressure_rate)
        stats.divergence_iterations += count
        stats.divergence_error = error * h
        stats.unsolved += int(error > limit)

    def _add_forces(self, h: float, ahead: float) -> None:
        self._begin_velocities()
        if self._bodies:
            self._bodies.move(ahead)
        self._sweep_lists(add_forces, self.model, self.state, self.near.place, self.near.velocity, *self._list(),
                    self.support, self.nparticle, h)  # fmt: skip
        if self._bodies:
            self._bodies.drag(h)

    def _solve_density(self, h: float, ahead: float) -> None:
        s, stats = self.state, self.stats
        self._begin_velocities()
        if self._bodies:
            self._bodies.move(ahead)
        self._sweep_lists(measure_divergence, self.near.place, self.near.velocity, *self._list(), self.support,
                          self._source)  # fmt: skip
        self._sweep(predict_density, s, self._source, h)
        self._sweep(begin_pressure, self.model, s, s.particle_pressure, WARM_START, self._push)
        limit = self.settings.density_error
        count, error = self._iterate(h * h, OMEGA / (h * h), 0, limit, self.settings.least_iterations, h)
        self._sweep(store_pressure, self.model, s, self._push, 1.0, s.particle_pressure)
        stats.iterations += count
        stats.density_error = error
        stats.unsolved += int(error > limit)

    def _iterate(
        self, time: float, strength: float, fewest: int, limit: float, least: int, h: float | None = None
    ) -> tuple[int, float]:
        """Iterates until the average error is below `limit`; adds the accelerations. (iterations, error)."""
        near, list_ = self.near, self._list()
        pressing = [self.model, self.state, near.place, self._push, *list_, self.support, self._acceleration]
        correcting = [
            self.model, self.state, near.place, self._acceleration, *list_, self.support, self._source, self._factor,
            time, strength, fewest, self._push, self._error.reshape(self.nparticle),
        ]  # fmt: skip
        count, error = 0, math.inf
        while count < self.settings.most_iterations and (count < least or error > limit):
            self._press(pressing)
            self._sweep_lists(correct_pressure, *correcting)
            sum_rows(self._error, self._sum, self.nparticle)
            error = float(self._sum.numpy()[0]) / self.nparticle
            count += 1
        self._press(pressing)
        self._sweep(accelerate, self.state, self._acceleration, time if h is None else h)
        if self._bodies:
            self._bodies.accelerate(time if h is None else h)
        return count, error

    def _press(self, pressing: list[Any]) -> None:
        self._sweep_lists(press, *pressing)
        if self._bodies:
            self._bodies.press(self._push, self._acceleration)

    # -- what went wrong -----------------------------------------------------------------------------------------------

    def _count_flags(self) -> None:
        sum_rows(self._flags, self._flag_sums, self.nparticle)
        clamped, bad = (int(x) for x in self._flag_sums.numpy())
        self.stats.clamped += clamped
        if bad:
            self._check_finite()

    def _check_finite(self) -> None:
        for name in ("particle_q", "particle_qd"):
            with np.errstate(over="ignore", invalid="ignore"):  # what is too large to be squared is as bad as infinity
                squares = (getattr(self.state, name).numpy() ** 2).sum(axis=1)
            wrong = np.flatnonzero(~np.isfinite(squares))
            if len(wrong):
                raise SimulationError(f"particle {self.state.particle_id.numpy()[wrong[0]]}", name, self._frame)
