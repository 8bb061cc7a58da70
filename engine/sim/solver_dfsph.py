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

from engine.compiler import lang as k
from engine.context import zeros
from engine.kernels.reduce import sum_rows
from engine.sim.cubic_spline import slope, weight
from engine.sim.fluid_settings import Settings
from engine.sim.fluid_solver import FluidSolver
from engine.sim.particle_cells import GROUP, Place
from engine.sim.particle_neighbours import Motion
from engine.sim.solver_soft_step_bodies import BodyRows
from engine.sim.stats import StageClock
from engine.state.model import Model
from engine.state.tables import State

OMEGA = 0.5  # of the Jacobi iterations
WARM_START = 0.5  # of the last pressure; all of it needs fewer iterations, but a tank at rest then stays restless
# Most of the excess of relative density that a step takes back, so that particles placed too close do not explode; of
# much excess a share, so that particles that were pressed into a wall come out of it.
PUSH, PUSH_SHARE = 0.005, 0.1
SPREAD = 0.1  # of particles in a filled domain, diameters × the way of the fastest one
FEW_NEIGHBOURS = 20  # a particle with fewer is spray: no divergence is kept from it


@k.kernel(shape="lanes", lanes=GROUP)
def measure_density(
    s: State,
    place: k.array(dtype=Place, layout="rows"),
    velocity: k.array(dtype=Motion, layout="rows"),
    neighbour: k.array(dtype=int, ndim=2),
    count: k.array(dtype=int),
    support: float,
    nfluid: int,
    factor: k.array(dtype=float),
    rate: k.array(dtype=float),
    crowd: k.array(dtype=int),
):
    """Relative density, its rate of change in 1/s, 1 / D, and how many neighbours there are."""
    group, lane = k.tid()
    i = group * GROUP + lane
    if i >= s.nparticle:
        return
    here = place[i]
    own = velocity[i].v
    density = 0.0
    near = -1  # without the particle itself
    total = k.vec3(0.0)
    squares = 0.0
    compression = 0.0
    for n in range(count[group]):
        j = neighbour[group, n]
        there = place[j]
        gap = here.x - there.x
        gap_sq = k.dot(gap, gap)
        density += there.volume * weight(gap_sq, support)
        near += k.select(gap_sq < support * support, 1, 0)
        gradient = gap * (there.volume * slope(gap_sq, support))
        total += gradient
        squares += k.select(j < nfluid, k.dot(gradient, gradient), 0.0)
        compression += k.dot(own - velocity[j].v, gradient)
    s.particle_density[i] = density
    rate[i] = compression
    crowd[i] = near
    resistance = k.dot(total, total) + squares
    factor[i] = k.select(resistance > 1.0e-6, 1.0 / k.select_max(resistance, 1.0e-6), 0.0)


@k.func
def divergence(
    place: k.array(dtype=Place, layout="rows"),
    field: k.array(dtype=Motion, layout="rows"),
    neighbour: k.array(dtype=int, ndim=2),
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
    for n in range(count[group]):
        j = neighbour[group, n]
        there = place[j]
        gap = here.x - there.x
        sum += there.volume * slope(k.dot(gap, gap), support) * k.dot(own - field[j].v, gap)
    return sum


@k.kernel(shape="lanes", lanes=GROUP)
def measure_divergence(
    place: k.array(dtype=Place, layout="rows"),
    velocity: k.array(dtype=Motion, layout="rows"),
    neighbour: k.array(dtype=int, ndim=2),
    count: k.array(dtype=int),
    support: float,
    nparticle: int,
    rate: k.array(dtype=float),
):
    """d(relative density)/dt of the velocities, 1/s."""
    group, lane = k.tid()
    i = group * GROUP + lane
    if i >= nparticle:
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


@k.kernel(shape="lanes", lanes=GROUP)
def correct_pressure(
    m: Model,
    s: State,
    place: k.array(dtype=Place, layout="rows"),
    acceleration: k.array(dtype=Motion, layout="rows"),
    neighbour: k.array(dtype=int, ndim=2),
    count: k.array(dtype=int),
    support: float,
    source: k.array(dtype=float),
    factor: k.array(dtype=float),
    crowd: k.array(dtype=int),
    time: float,
    strength: float,
    fewest: int,
    least: float,
    push: k.array(dtype=float),
    error: k.array(dtype=float),
):
    """One Jacobi step: what the accelerations leave of `source` after `time` changes the pressure."""
    group, lane = k.tid()
    i = group * GROUP + lane
    if i >= s.nparticle:
        return
    rest = source[i] + time * divergence(place, acceleration, neighbour, count, support, group, lane)
    change = strength * rest * factor[i] * m.fluid_density[s.particle_fluid[i]]
    enough = crowd[i] >= fewest
    push[i] = k.select(enough, k.select_max(push[i] + change, least), 0.0)
    error[i] = k.select(enough, k.select_max(rest, k.select(least < 0.0, -rest, 0.0)), 0.0)


@k.kernel(shape="lanes", lanes=GROUP)
def spread(
    s: State,
    place: k.array(dtype=Place, layout="rows"),
    neighbour: k.array(dtype=int, ndim=2),
    count: k.array(dtype=int),
    support: float,
    length: float,
):
    """Moves particles from where they are dense to where they are not (Lind et al. 2012); velocities stay.

    With pressures of both signs nothing else keeps them from lining up in pairs (the pairing of Monaghan 2000).
    """
    group, lane = k.tid()
    i = group * GROUP + lane
    if i >= s.nparticle:
        return
    here = place[i].x
    least = 0.25 * support * support  # the square of a diameter
    usual = weight(least, support)
    sum = k.vec3(0.0)
    for n in range(count[group]):
        there = place[neighbour[group, n]]
        gap = here - there.x
        gap_sq = k.dot(gap, gap)
        share = weight(gap_sq, support) / usual
        sum += gap * (there.volume * slope(gap_sq, support) * (1.0 + 0.2 * share * share * share * share))
    s.particle_q[i] = s.particle_q[i] - sum * length


@k.requires(lambda tid, values: tid < values.shape[0])
@k.kernel
def subtract(values: k.array(dtype=float), amount: float):
    i = k.tid()
    values[i] = values[i] - amount


@k.requires(lambda tid, s, rate: tid < s.particle_q.shape[0] and tid < rate.shape[0])
@k.kernel
def predict_density(s: State, rate: k.array(dtype=float), h: float):
    """rate := relative density after h, less 1. What is too dense already is spread out over several steps."""
    i = k.tid()
    excess = s.particle_density[i] - 1.0
    rate[i] = k.select_min(excess, k.select_max(PUSH, PUSH_SHARE * excess)) + h * rate[i]


class Dfsph(FluidSolver):
    """See FluidSolver."""

    def __init__(self, model: Model, state: State, rows: BodyRows, settings: Settings | None = None):
        super().__init__(model, state, rows, settings)
        self._least = -math.inf if self.settings.filled else 0.0  # pressure

    def _reserve(self, room: int) -> None:
        super()._reserve(room)
        self._factor, self._source = (zeros(room, dtype=float, device=self.device) for _ in range(2))
        self._crowd = zeros(room, dtype=int, device=self.device)

    def _step(self, clock: StageClock, left: float, ahead: float) -> float:
        with clock("neighbours"):
            self._find_neighbours(ahead)
        with clock("density"):
            self.near.sweep(measure_density, self.state, self.near.place, self.near.velocity, *self._list(),
                              self.support, self.near.nfluid, self._factor, self._source, self._crowd)  # fmt: skip
        h = self._step_length(left)
        if self.settings.solve_divergence:
            with clock("divergence"):
                self._solve_divergence(h)
        with clock("forces"):
            self._add_forces(h, ahead)
        with clock("pressure"):
            self._solve_density(h, ahead + h)
        with clock("move"):
            if self.settings.filled:
                self._spread(h)
            self._move(h)
        return h

    def _solve_divergence(self, h: float) -> None:
        s, stats = self.state, self.stats
        self._sweep(begin_pressure, self.model, s, s.particle_pressure_rate, WARM_START / h, self._push)
        self._balance()
        limit = self.settings.divergence_error / h
        count, error = self._iterate(h, OMEGA / h, FEW_NEIGHBOURS, limit, 1)
        self._accelerate(h)
        self._sweep(store_pressure, self.model, s, self._push, h, s.particle_pressure_rate)
        stats.divergence_iterations += count
        stats.divergence_error = error * h
        stats.unsolved += int(error > limit)

    def _solve_density(self, h: float, ahead: float) -> None:
        s, stats = self.state, self.stats
        self._begin_velocities(ahead)
        self.near.sweep(measure_divergence, self.near.place, self.near.velocity, *self._list(), self.support,
                          self.nparticle, self._source)  # fmt: skip
        self._sweep(predict_density, s, self._source, h)
        self._sweep(begin_pressure, self.model, s, s.particle_pressure, WARM_START, self._push)
        self._balance()
        limit = self.settings.density_error
        count, error = self._iterate(h * h, OMEGA / (h * h), 0, limit, self.settings.least_iterations)
        self._accelerate(h)
        self._sweep(store_pressure, self.model, s, self._push, 1.0, s.particle_pressure)
        stats.iterations += count
        stats.density_error = error
        stats.unsolved += int(error > limit)

    def _spread(self, h: float) -> None:
        length = SPREAD * self.diameter * h * self._speed
        self.near.sweep(spread, self.state, self.near.place, *self._list(), self.support, length)

    def _balance(self) -> None:
        """A fluid that fills its domain cannot change its mean density: the source has no mean."""
        if self.settings.filled:
            sum_rows(self._source.reshape((1, -1)), self._sum, self.nparticle)
            self._sweep(subtract, self._source, float(self._sum.numpy()[0]) / self.nparticle)

    def _iterate(self, time: float, strength: float, fewest: int, limit: float, least: int) -> tuple[int, float]:
        """Iterates until the average error is below `limit`, and leaves the accelerations. (iterations, error)."""
        count, error = 0, math.inf
        while count < self.settings.most_iterations and (count < least or error > limit):
            self._press()
            self.near.sweep(
                correct_pressure, self.model, self.state, self.near.place, self._acceleration, *self._list(),
                self.support, self._source, self._factor, self._crowd, time, strength, fewest,
                self._least, self._push,
                self._errors,
            )  # fmt: skip
            sum_rows(self._error, self._sum, self.nparticle)
            error = float(self._sum.numpy()[0]) / self.nparticle
            count += 1
        self._press()
        return count, error
