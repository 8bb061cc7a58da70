"""Implicit viscosity (Weiler et al. 2018): velocities at the end of a step, by conjugate gradients without a matrix.

With f the viscous force per volume of velocities (the sum of `drag_shape` over the neighbours), it solves

    ρ v − h f(v) = ρ v⁰        residual at v⁰: h f(v⁰)

whose matrix is symmetric and positive, as all particles have one volume. Velocities of solids are those at the start.
The preconditioner is the diagonal. Each iteration is one sweep over the neighbours.
"""

# mypy: disable-error-code="call-arg"
# (structs have no constructor that mypy sees)

from __future__ import annotations

import math
from typing import Any

from engine.compiler import lang as k
from engine.context import launch, zeros
from engine.kernels.reduce import sum_rows
from engine.sim.cubic_spline import bend
from engine.sim.fluid_settings import Settings
from engine.sim.particle_cells import GROUP, Place
from engine.sim.particle_neighbours import SOFT, Motion, Neighbours, drag_scale, drag_shape
from engine.sim.stats import FluidStats
from engine.state.model import Model
from engine.state.tables import State


@k.func
def viscous_force(
    place: k.array(dtype=Place, layout="rows"),
    field: k.array(dtype=Motion, layout="rows"),
    neighbour: k.array(dtype=int, ndim=2),
    number: int,
    support: float,
    nfluid: int,
    wall: float,
    group: int,
    lane: int,
) -> k.vec3:
    """Force per volume on a particle by the viscosity of its fluid, and by `wall` (Pa·s) against solids."""
    i = group * GROUP + lane
    here = place[i]
    own = field[i]
    sum = k.vec3(0.0)
    for n in range(number):
        j = neighbour[group, n]
        there = place[j]
        gap = here.x - there.x
        moving = field[j]
        drag = k.select(j < nfluid, 0.5 * (own.drag + moving.drag), wall)
        sum += gap * (drag * there.volume * drag_shape(gap, own.v - moving.v, support))
    return sum * drag_scale(support)


@k.kernel(shape="lanes", lanes=GROUP)
def begin_solve(
    m: Model,
    s: State,
    place: k.array(dtype=Place, layout="rows"),
    velocity: k.array(dtype=Motion, layout="rows"),
    neighbour: k.array(dtype=int, ndim=2),
    count: k.array(dtype=int),
    support: float,
    nfluid: int,
    h: float,
    diagonal: k.array(dtype=k.vec3),
    residual: k.array(dtype=k.vec3),
    direction: k.array(dtype=Motion, layout="rows"),
    products: k.array(dtype=float, ndim=2),
):
    """The matrix's diagonal, the residual of `velocity`, and the first direction; products: r·z, r², (ρ v)²."""
    group, lane = k.tid()
    i = group * GROUP + lane
    if i >= s.nparticle:
        return
    fluid = s.particle_fluid[i]
    density = m.fluid_density[fluid]
    wall = m.fluid_wall_viscosity[fluid] * density
    here = place[i].x
    own = velocity[i]
    squares = k.vec3(0.0)
    sum = k.vec3(0.0)
    for n in range(count[group]):
        j = neighbour[group, n]
        there = place[j]
        gap = here - there.x
        moving = velocity[j]
        gap_sq = k.dot(gap, gap)
        drag = k.select(j < nfluid, 0.5 * (own.drag + moving.drag), wall)
        strength = drag * there.volume * bend(gap_sq, support) / (gap_sq + SOFT * support * support)
        sum += gap * (strength * k.dot(gap, own.v - moving.v))
        squares += k.cw_mul(gap, gap) * strength
    main = k.vec3(density) - squares * (drag_scale(support) * h)
    r = sum * (drag_scale(support) * h)
    z = k.cw_div(r, main)
    diagonal[i] = main
    residual[i] = r
    direction[i] = Motion(z, own.drag)
    products[0, i] = k.dot(r, z)
    products[1, i] = k.dot(r, r)
    products[2, i] = density * density * k.dot(own.v, own.v)


@k.kernel(shape="lanes", lanes=GROUP)
def apply_matrix(
    m: Model,
    s: State,
    place: k.array(dtype=Place, layout="rows"),
    direction: k.array(dtype=Motion, layout="rows"),
    neighbour: k.array(dtype=int, ndim=2),
    count: k.array(dtype=int),
    support: float,
    nfluid: int,
    h: float,
    image: k.array(dtype=k.vec3),
    products: k.array(dtype=float, ndim=2),
):
    """image = A p; products: p·A p."""
    group, lane = k.tid()
    i = group * GROUP + lane
    if i >= s.nparticle:
        return
    fluid = s.particle_fluid[i]
    density = m.fluid_density[fluid]
    wall = m.fluid_wall_viscosity[fluid] * density
    p = direction[i].v
    force = viscous_force(place, direction, neighbour, count[group], support, nfluid, wall, group, lane)
    value = p * density - force * h
    image[i] = value
    products[0, i] = k.dot(p, value)


@k.kernel
def step_along(
    s: State,
    direction: k.array(dtype=Motion, layout="rows"),
    image: k.array(dtype=k.vec3),
    diagonal: k.array(dtype=k.vec3),
    length: float,
    residual: k.array(dtype=k.vec3),
    products: k.array(dtype=float, ndim=2),
):
    """v += α p, r −= α A p; products: r·z, r²."""
    i = k.tid()
    s.particle_qd[i] += direction[i].v * length
    r = residual[i] - image[i] * length
    residual[i] = r
    products[0, i] = k.dot(r, k.cw_div(r, diagonal[i]))
    products[1, i] = k.dot(r, r)


@k.requires(lambda tid, residual, diagonal, direction: tid < residual.shape[0] and tid < diagonal.shape[0]
    and tid < direction.shape[0])  # fmt: skip
@k.kernel
def turn_direction(
    residual: k.array(dtype=k.vec3),
    diagonal: k.array(dtype=k.vec3),
    keep: float,
    direction: k.array(dtype=Motion, layout="rows"),
):
    """p = z + β p."""
    i = k.tid()
    direction[i].v = k.cw_div(residual[i], diagonal[i]) + direction[i].v * keep


class ImplicitViscosity:
    """Solves for the velocities of `state` with the lists of `near`."""

    def __init__(self, model: Model, state: State, near: Neighbours, settings: Settings):
        self._model, self._state, self._near, self._settings = model, state, near, settings
        self._rows = self._room = 0

    def _fit(self) -> None:
        near = self._near
        if self._rows < near.rows:
            self._rows = near.rows
            self._direction = zeros(near.rows, dtype=Motion, device=near.device, layout="rows")
        if self._room < near.room:
            self._room = n = near.room
            self._diagonal, self._residual, self._image = (
                zeros(n, dtype=k.vec3, device=near.device) for _ in range(3)
            )
            self._products = zeros((3, n), dtype=float, device=near.device)
            self._sums = zeros(3, dtype=float, device=near.device)

    def solve(self, h: float, stats: FluidStats) -> None:
        """State's velocities, which are those of near.velocity, after h seconds of viscosity."""
        near, settings = self._near, self._settings
        self._fit()
        self._direction.zero_()  # of solids, whose velocities are given
        swept = [near.list, near.count, near.support, near.nfluid, h]
        tables = [self._model, self._state, near.place]
        self._near.sweep(begin_solve, *tables, near.velocity, *swept, self._diagonal, self._residual, self._direction,
                    self._products)  # fmt: skip
        along, square, scale = self._summed()
        limit = settings.viscosity_error**2 * scale
        count = 0
        while square > limit and count < settings.most_viscosity_iterations:
            near.refresh(self._direction)
            self._near.sweep(apply_matrix, *tables, self._direction, *swept, self._image, self._products)
            length = along / self._summed()[0]
            self._launch(step_along, self._state, self._direction, self._image, self._diagonal, length, self._residual,
                         self._products)  # fmt: skip
            before, (along, square, _) = along, self._summed()
            self._launch(turn_direction, self._residual, self._diagonal, along / before, self._direction)
            count += 1
        stats.viscosity_iterations += count
        stats.viscosity_error = math.sqrt(square / scale) if scale > 0.0 else 0.0
        stats.unsolved += int(square > limit)

    def _summed(self) -> tuple[float, float, float]:
        sum_rows(self._products, self._sums, self._near.nparticle)
        first, second, third = (float(x) for x in self._sums.numpy())
        return first, second, third

    def _launch(self, kernel: Any, *inputs: Any) -> None:
        launch(kernel, self._near.nparticle, inputs=list(inputs), device=self._near.device)
