"""DFSPH: incompressible fluids of particles (Bender & Koschier 2017), with solids as points (Akinci et al. 2012).

One step of h seconds:

    neighbours ─► density, factor, drag ─► divergence-free solve ─► gravity, viscosity ─► constant-density solve ─► move

Both solves are Jacobi iterations for a pressure κ (over the density at rest) that is never negative. With
a_i = −Σ V_j (κ_i + κ_j ρ_j/ρ_i) ∇W_ij and what the velocities v + h a do to the relative density, iterations add
ω (ρ* − 1) / (h² D_i), or ω (dρ/dt)* / (h D_i), to κ_i, where ρ* is the relative density after the step, and
D_i = |Σ V_j ∇W_ij|² + Σ |V_j ∇W_ij|² is what κ_i does to it (points of solids are only in the first sum: they feel no
pressure of their own). The pressures of the last step start the next; iterations go on in the direction of the last
ones (half of Nesterov's momentum) until the error grows.

Each thread adds up its own neighbours in the order of the list: no atomics, and the same bits on any number of threads.
"""

# mypy: disable-error-code="call-arg"
# (structs have no constructor that mypy sees)

from __future__ import annotations

import math
from typing import Any

import numpy as np

from engine.compiler import lang as k
from engine.context import zeros
from engine.kernels.reduce import sum_rows
from engine.sim.cubic_spline import bend, slope, slope_scale, weight, weight_scale, weight_shape
from engine.sim.fluid_settings import Settings
from engine.sim.fluid_solver import FluidSolver
from engine.sim.particle_cells import GROUP, Place
from engine.sim.particle_neighbours import Motion, drag_scale, drag_shape
from engine.sim.solver_soft_step_bodies import BodyRows
from engine.sim.stats import StageClock
from engine.state.model import Model
from engine.state.tables import State

OMEGA = 0.5  # of the Jacobi iterations
MOMENTUM = 0.5  # of Nesterov's: all of it needs a tenth fewer iterations, but takes swings out of droplets
FILLED_OMEGA = 0.25  # where pressures may be negative: with 0.5 they explode once particles clump
WARM_START = 0.5  # of the last pressure; all of it needs fewer iterations, but a tank at rest then stays restless
# Most of the excess of relative density that a step takes back, so that particles placed too close do not explode; of
# much excess a share, so that particles that were pressed into a wall come out of it.
PUSH, PUSH_SHARE = 0.005, 0.1
# Of particles in a filled domain (A of Lind et al. 2012), and the most that is stable, diameters squared: twice as much
# is not.
SPREAD, MOST_SPREAD = 1.0, 0.1
# Least D, over the support squared: that of two particles 1.2 diameters apart; inside a fluid it is 1.7. A particle
# between two solids, whose points it cannot move, has none, and its pressure would throw the next one away.
LEAST_RESISTANCE = 0.2
FEW_NEIGHBOURS = 20  # a particle with fewer is spray: no divergence is kept from it


@k.kernel(shape="lanes", lanes=GROUP)
def sum_neighbours(
    m: Model,
    s: State,
    place: k.array(dtype=Place, layout="rows"),
    velocity: k.array(dtype=Motion, layout="rows"),
    neighbour: k.array(dtype=int, ndim=2),
    count: k.array(dtype=int),
    support: float,
    nfluid: int,
    viscous: int,
    factor: k.array(dtype=float, layout="planes"),
    drag: k.array(dtype=k.vec3, layout="planes"),
):
    """Relative density, 1 / D (of spray −1 / D), and where `viscous` is 1 the acceleration by explicit viscosity."""
    group, lane = k.tid()
    i = group * GROUP + lane
    if i >= s.nparticle:
        return
    here = place[i]
    own = velocity[i]
    fluid = s.particle_fluid[i]
    wall = m.fluid_wall_viscosity[fluid] * m.fluid_density[fluid]
    density = 0.0
    near = -1  # without the particle itself
    total = k.vec3(0.0)
    squares = 0.0
    sum = k.vec3(0.0)
    for n in range(count[group]):
        j = neighbour[group, n]
        there = place[j]
        gap = there.x - here.x
        gap_sq = k.dot(gap, gap)
        density += there.volume * weight_shape(gap_sq, support)
        near += k.select(gap_sq < support * support, 1, 0)
        steep = there.volume * bend(gap_sq, support)
        total += gap * steep
        squares += k.select(j < nfluid, steep * steep * gap_sq, 0.0)
        if viscous == 1:
            moving = velocity[j]
            thickness = k.select(j < nfluid, 0.5 * (own.drag + moving.drag), wall)
            sum += gap * (thickness * there.volume * drag_shape(gap, moving.v - own.v, support))
    s.particle_density[i] = density * weight_scale(support)
    scale = slope_scale(support)
    resistance = (k.dot(total, total) + squares) * (scale * scale)
    known = 1.0 / k.select_max(resistance, LEAST_RESISTANCE / (support * support))
    factor[i] = k.select(near < FEW_NEIGHBOURS, -known, known)
    if viscous == 1:
        drag[i] = sum * (-drag_scale(support) / m.fluid_density[fluid])


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
        gap = there.x - here.x
        sum += there.volume * bend(k.dot(gap, gap), support) * k.dot(field[j].v - own, gap)
    return sum * slope_scale(support)


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


@k.requires(lambda tid, s, moved: tid < moved.shape[0] and tid < s.particle_q.shape[0])
@k.kernel
def take_velocities(s: State, moved: k.array(dtype=Motion, layout="rows")):
    i = k.tid()
    s.particle_qd[i] = moved[i].v


@k.requires(lambda tid, m, s, drag: tid < s.particle_q.shape[0] and tid < drag.shape[0]
    and 1 <= m.gravity.shape[0])  # fmt: skip
@k.kernel
def fall_with_drag(m: Model, s: State, drag: k.array(dtype=k.vec3, layout="planes"), h: float):
    i = k.tid()
    s.particle_qd[i] += h * (m.gravity[0] + drag[i])


@k.requires(lambda tid, m, s, stored, push, last: tid < s.particle_q.shape[0] and 0 <= s.particle_fluid[tid]
    and s.particle_fluid[tid] < m.fluid_density.shape[0] and tid < stored.shape[0] and tid < push.shape[0]
    and tid < last.shape[0])  # fmt: skip
@k.kernel
def begin_pressure(
    m: Model,
    s: State,
    stored: k.array(dtype=float, layout="planes"),
    scale: float,
    push: k.array(dtype=float),
    last: k.array(dtype=float, layout="planes"),
):
    """The pressure (Pa) that iterations start with."""
    i = k.tid()
    pressure = m.fluid_density[s.particle_fluid[i]] * stored[i] * scale
    push[i] = pressure
    last[i] = pressure


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
    moved: k.array(dtype=Motion, layout="rows"),
    neighbour: k.array(dtype=int, ndim=2),
    count: k.array(dtype=int),
    support: float,
    source: k.array(dtype=float),
    time: float,
    factor: k.array(dtype=float, layout="planes"),
    strength: float,
    spray: int,
    momentum: float,
    least: float,
    push: k.array(dtype=float),
    last: k.array(dtype=float, layout="planes"),
    error: k.array(dtype=float),
):
    """One Jacobi step: what `source`, and the velocities in `time`, do to the relative density changes the pressure.

    spray: whether spray takes part. push: the pressure that the velocities have felt; then the next one to try, beyond
    what this step makes of it by `momentum` times the way from the `last`.
    """
    group, lane = k.tid()
    i = group * GROUP + lane
    if i >= s.nparticle:
        return
    rest = source[i] + time * divergence(place, moved, neighbour, count, support, group, lane)
    taken = spray == 1 or factor[i] > 0.0
    change = strength * rest * k.abs(factor[i]) * m.fluid_density[s.particle_fluid[i]]
    solved = k.select(taken, k.select_max(push[i] + change, least), 0.0)
    push[i] = k.select_max(solved + momentum * (solved - last[i]), least)
    last[i] = solved
    error[i] = k.select(taken, k.select_max(rest, k.select(least < 0.0, -rest, 0.0)), 0.0)


@k.kernel(shape="lanes", lanes=GROUP)
def spread(
    s: State,
    place: k.array(dtype=Place, layout="rows"),
    velocity: k.array(dtype=Motion, layout="rows"),
    neighbour: k.array(dtype=int, ndim=2),
    count: k.array(dtype=int),
    support: float,
    length: float,
    nfluid: int,
):
    """Moves particles from where they are dense to where they are not (Lind et al. 2012, eq. 20 and 25), and gives
    them the velocity of where they then are: fluid does not move along.

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
    way = sum * -length
    own = velocity[i].v
    change = k.vec3(0.0)
    for n in range(count[group]):
        j = neighbour[group, n]
        there = place[j]
        gap = here - there.x
        along = there.volume * slope(k.dot(gap, gap), support) * k.dot(gap, way)
        change += (velocity[j].v - own) * k.select(j < nfluid, along, 0.0)
    s.particle_q[i] = s.particle_q[i] + way
    s.particle_qd[i] = s.particle_qd[i] + change


@k.requires(lambda tid, values: tid < values.shape[0])
@k.kernel
def subtract(values: k.array(dtype=float), amount: float):
    i = k.tid()
    values[i] = values[i] - amount


@k.requires(lambda tid, s, excess: tid < s.particle_q.shape[0] and tid < excess.shape[0])
@k.kernel
def find_excess(s: State, free: int, excess: k.array(dtype=float)):
    """Relative density, less 1. What is too dense already is spread out over several steps; where no surface is free,
    what is not dense enough as well, and gently: `spread` does most of it."""
    i = k.tid()
    more = s.particle_density[i] - 1.0
    share = PUSH_SHARE * more
    taken = k.select_min(more, k.select_max(PUSH, share))
    excess[i] = k.select(free == 1, taken, k.clamp(share, -PUSH, PUSH))


class Dfsph(FluidSolver):
    """See FluidSolver."""

    def __init__(self, model: Model, state: State, rows: BodyRows, settings: Settings | None = None):
        super().__init__(model, state, rows, settings)
        self._least = -math.inf if self.settings.filled else 0.0  # pressure
        viscosities = model.fluid_viscosity.numpy(), model.fluid_wall_viscosity.numpy()
        self._drags = self._viscosity is None and any(np.any(x > 0.0) for x in viscosities)
        self._omega = FILLED_OMEGA if self.settings.filled else OMEGA

    def _reserve(self, room: int) -> None:
        super()._reserve(room)
        self._source = zeros(room, dtype=float, device=self.device)

    def _fit(self) -> None:
        super()._fit()
        spare = self.near.spare
        self._drag, self._factor, self._last = spare.particle_qd, spare.particle_density, spare.particle_pressure

    def _step(self, clock: StageClock, left: float, ahead: float) -> float:
        near = self.near
        with clock("neighbours"):
            self._find_neighbours(ahead)
        with clock("density"):
            near.sweep(sum_neighbours, self.model, self.state, near.place, near.velocity, *self._list(), self.support,
                         near.nfluid, int(self._drags), self._factor, self._drag)  # fmt: skip
        h = self._step_length(left)
        if self._bodies:
            with clock("density"):
                self._bodies.soften(self._factor, self._push)
        if self._drags and self._bodies:
            self._bodies.drag(h)  # by the velocities that `sum_neighbours` saw
        if self.settings.solve_divergence:
            with clock("divergence"):
                self._solve_divergence(h)
        with clock("forces"):
            self._add_forces(h, ahead)
        with clock("pressure"):
            self._solve_density(h, ahead + h)
        with clock("move"):
            if self.settings.filled:
                self._spread(h, ahead + h)
            self._move(h)
        return h

    def _add_drag(self, h: float, ahead: float) -> None:
        """Gravity, and the viscosity that was measured with the density."""
        self._sweep(fall_with_drag, self.model, self.state, self._drag, h)

    def _solve_divergence(self, h: float) -> None:
        s, stats = self.state, self.stats
        self._source.zero_()
        self._balance(1.0)
        self._begin_pressure(s.particle_pressure_rate, WARM_START / h)
        limit = self.settings.divergence_error / h
        count, error = self._iterate(1.0, h, self._omega / h, 0, limit, 1)
        self._take_velocities(h)
        self._sweep(store_pressure, self.model, s, self._push, h, s.particle_pressure_rate)
        stats.divergence_iterations += count
        stats.divergence_error = error * h
        stats.unsolved += int(error > limit)

    def _solve_density(self, h: float, ahead: float) -> None:
        s, stats = self.state, self.stats
        self._begin_velocities(ahead)
        self._sweep(find_excess, s, int(not self.settings.filled), self._source)
        self._balance(h)
        self._begin_pressure(s.particle_pressure, WARM_START)
        limit = self.settings.density_error
        count, error = self._iterate(h, h, self._omega / (h * h), 1, limit, self.settings.least_iterations)
        self._press(1.0, h)  # with what the last iteration corrected: single particles that meet a wall need it
        self._take_velocities(h)
        self._sweep(store_pressure, self.model, s, self._push, 1.0, s.particle_pressure)
        stats.iterations += count
        stats.density_error = error
        stats.unsolved += int(error > limit)

    def _spread(self, h: float, ahead: float) -> None:
        self._begin_velocities(ahead)
        length = self.diameter * min(SPREAD * h * self._speed, MOST_SPREAD * self.diameter)
        self.near.sweep(spread, self.state, self.near.place, self.near.velocity, *self._list(), self.support, length,
                        self.near.nfluid)  # fmt: skip

    def _begin_pressure(self, stored: Any, scale: float) -> None:
        self._sweep(begin_pressure, self.model, self.state, stored, scale, self._push, self._last)

    def _balance(self, time: float) -> None:
        """A fluid that fills its domain cannot change its mean density: `_source`, and the velocities in `time`, have
        no mean."""
        if not self.settings.filled:
            return
        near, n = self.near, self.nparticle
        near.sweep(measure_divergence, near.place, near.velocity, *self._list(), self.support, n, self._errors)
        mean = 0.0
        for rates, share in ((self._error, time), (self._source.reshape((1, -1)), 1.0)):
            sum_rows(rates, self._sum, n)
            mean += share * float(self._sum.numpy()[0]) / n
        self._sweep(subtract, self._source, mean)

    def _iterate(
        self, time: float, h: float, strength: float, spray: int, limit: float, least: int
    ) -> tuple[int, float]:
        """Iterates until the average error of the velocities is below `limit`: (iterations, error)."""
        near, count, error, momentum = self.near, 0, math.inf, Momentum()
        while count < self.settings.most_iterations and (count < least or error > limit):
            self._press(1.0, h)
            near.sweep(
                correct_pressure, self.model, self.state, near.place, self._moved, *self._list(), self.support,
                self._source, time, self._factor, strength, spray, momentum.after(error), self._least, self._push,
                self._last, self._errors,
            )  # fmt: skip
            sum_rows(self._error, self._sum, self.nparticle)
            error = float(self._sum.numpy()[0]) / self.nparticle
            count += 1
        return count, error

    def _take_velocities(self, h: float) -> None:
        """What h seconds of the pressure made of the velocities, of bodies, too."""
        self._sweep(take_velocities, self.state, self._moved)
        if self._bodies:
            self._bodies.accelerate(h)


class Momentum:
    """Nesterov's sequence (1983), begun anew when the error has grown (O'Donoghue & Candès 2015)."""

    def __init__(self) -> None:
        self._t, self._error = 1.0, math.inf

    def after(self, error: float) -> float:
        """The next factor, given the error of the last iteration (infinite: none)."""
        before = 1.0 if error > self._error else self._t
        self._error = error
        self._t = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * before * before))
        return MOMENTUM * (before - 1.0) / self._t
