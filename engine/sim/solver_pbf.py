"""PBF: position based fluids (Macklin & Müller 2013), which move particles until the density is right.

    move by the velocities ─► neighbours ─► correct places ─► gravity, viscosity, tension

An iteration measures the density where the particles now are; what is above that at rest, over the diagonal D of
solver_dfsph, is a pressure for this one iteration, whose accelerations move particles and bodies: places by h² a,
velocities by h a. So momentum is kept as in the other solvers, and what an iteration did not correct the next one sees.
Constraints only push (densities below that at rest are surfaces), which is why no artificial pressure is needed.
"""

# mypy: disable-error-code="call-arg"
# (structs have no constructor that mypy sees)

from __future__ import annotations

import math

from engine.compiler import lang as k
from engine.context import launch
from engine.kernels.reduce import sum_rows
from engine.sim.cubic_spline import slope, weight
from engine.sim.fluid_solver import FluidSolver
from engine.sim.particle_cells import GROUP, Place
from engine.sim.particle_neighbours import Motion
from engine.sim.stats import StageClock
from engine.state.model import Model
from engine.state.tables import State

OMEGA = 0.5  # of the Jacobi iterations
PUSH, PUSH_SHARE, LEAST_RESISTANCE = 0.005, 0.1, 0.2  # as in solver_dfsph


@k.requires(lambda tid, s: tid < s.particle_q.shape[0])
@k.kernel
def drift(s: State, h: float):
    i = k.tid()
    s.particle_q[i] = s.particle_q[i] + s.particle_qd[i] * h


@k.kernel(shape="lanes", lanes=GROUP)
def find_pressure(
    m: Model,
    s: State,
    place: k.array(dtype=Place, layout="rows"),
    neighbour: k.array(dtype=int, ndim=2),
    count: k.array(dtype=int),
    support: float,
    nfluid: int,
    strength: float,
    push: k.array(dtype=float),
    error: k.array(dtype=float),
):
    """Density where the particles are now, and the pressure that takes half of what is too much."""
    group, lane = k.tid()
    i = group * GROUP + lane
    if i >= s.nparticle:
        return
    here = place[i]
    density = 0.0
    total = k.vec3(0.0)
    squares = 0.0
    for n in range(count[group]):
        j = neighbour[group, n]
        there = place[j]
        gap = here.x - there.x
        gap_sq = k.dot(gap, gap)
        density += there.volume * weight(gap_sq, support)
        gradient = gap * (there.volume * slope(gap_sq, support))
        total += gradient
        squares += k.select(j < nfluid, k.dot(gradient, gradient), 0.0)
    s.particle_density[i] = density
    excess = k.select_max(density - 1.0, 0.0)
    wanted = k.select_min(excess, k.select_max(PUSH, PUSH_SHARE * excess))
    resistance = k.select_max(k.dot(total, total) + squares, LEAST_RESISTANCE / (support * support))
    push[i] = m.fluid_density[s.particle_fluid[i]] * (strength * wanted / resistance)
    error[i] = wanted


@k.requires(lambda tid, acceleration, place: tid < acceleration.shape[0] and tid < place.shape[0])
@k.kernel
def displace(
    acceleration: k.array(dtype=Motion, layout="rows"), square: float, place: k.array(dtype=Place, layout="rows")
):
    i = k.tid()
    place[i] = Place(place[i].x + acceleration[i].v * square, place[i].volume)


@k.requires(lambda tid, s, place: tid < s.particle_q.shape[0] and tid < place.shape[0])
@k.kernel
def take_places(s: State, place: k.array(dtype=Place, layout="rows")):
    """The particles' new places."""
    i = k.tid()
    s.particle_q[i] = place[i].x


@k.requires(lambda tid, place, points, slot, placed: tid < slot.shape[0] and tid < placed.shape[0] and 0 <= points
    and points <= place.shape[0] and 0 <= slot[tid] and slot[tid] < place.shape[0] - points)  # fmt: skip
@k.kernel
def follow_places(
    place: k.array(dtype=Place, layout="rows"), points: int, slot: k.array(dtype=int), placed: k.array(dtype=k.vec3)
):
    """The points of bodies in the order of the model."""
    i = k.tid()
    placed[i] = place[points + slot[i]].x


class Pbf(FluidSolver):
    """See FluidSolver."""

    REACH = 1.25  # who comes near by corrections must be in the lists of both, or momentum is lost

    def _step(self, clock: StageClock, left: float, ahead: float) -> float:
        with clock("neighbours"):
            self._sweep_velocities()
            h = self._step_length(left)
            self._sweep(drift, self.state, h)
            self._move(0.0)  # across periodic faces
            if not self.nparticle:
                return h
            self._find_neighbours(ahead + h)
        with clock("pressure"):
            self._correct(h)
        with clock("forces"):
            self._add_forces(h, ahead + h)
        with clock("move"):
            self._move(0.0)
        return h

    def _correct(self, h: float) -> None:
        near, limit = self.near, self.settings.density_error
        least, most = self.settings.least_iterations, self.settings.most_iterations
        count, error = 0, math.inf
        while count < most and (count < least or error > limit):
            self.near.sweep(find_pressure, self.model, self.state, near.place, *self._list(), self.support,
                              near.nfluid, OMEGA / (h * h), self._push, self._errors)  # fmt: skip
            self._press()
            self._accelerate(h)
            launch(displace, near.nplace, inputs=[self._moved, h * h, near.place], device=self.device)
            if self._bodies:
                points = [near.place, near.nfluid, near.slot, near.placed]
                launch(follow_places, self._bodies.npoint, inputs=points, device=self.device)
            sum_rows(self._error, self._sum, self.nparticle)
            error = float(self._sum.numpy()[0]) / self.nparticle
            count += 1
        self._sweep(take_places, self.state, near.place)
        self.stats.iterations += count
        self.stats.density_error = error
        self.stats.unsolved += int(error > limit)
