"""Bodies in a fluid: where the points on their surfaces are, how they move, and what the fluid does to the bodies.

The fluid reads and writes the rows of the rigid solver (solver_soft_step_bodies) between two of its substeps, so that
pressure and contacts act on the same velocities. Pressure is solved together with the answer of the bodies: in each
iteration

    pressure ─► force on each point ─► sum per body ─► acceleration of the body ─► acceleration of its points

and the next iteration sees how far the bodies give way (without it a body lighter than the fluid dances: Gissler et
al. 2019). What the fluid does to a point, the point does to the fluid: momentum is kept. Points come in the order of
the bodies, and one thread sums a body's in that order: no atomics, and the same bits on any number of threads.
"""

# mypy: disable-error-code="call-arg"
# (structs have no constructor that mypy sees)

from __future__ import annotations

import math
from typing import Any

import numpy as np

from engine.compiler import lang as k
from engine.context import array, launch, zeros
from engine.kernels.reduce import Bounds
from engine.sim.cubic_spline import bend, slope, slope_scale
from engine.sim.particle_cells import GROUP, Cluster, Place, add_near, groups_of, join
from engine.sim.particle_neighbours import Motion, Neighbours, drag_scale, drag_shape
from engine.sim.solver_soft_step_bodies import (
    BodyFrame,
    BodyInertia,
    BodyMotion,
    BodyRows,
    BodyVelocity,
    inertia_times,
    rotated,
)
from engine.state.model import Model
from engine.state.tables import State

YIELD = 0.25  # of the bound of `soften`: iterations that go half of the way are stable up to four times D
CAPACITY = 48  # particles near a point that there is room for at first


@k.func
def free_velocity(
    m: Model,
    s: State,
    velocity: k.array(dtype=BodyVelocity, layout="rows"),
    frame: k.array(dtype=BodyFrame, layout="rows"),
    inertia: k.array(dtype=BodyInertia, layout="rows"),
    body: int,
    time: float,
) -> BodyVelocity:
    """What gravity and applied forces make of a body's velocity in `time`; contacts come after the fluid."""
    out = velocity[body]
    inv_mass = frame[body].inv_mass
    if inv_mass > 0.0:
        f = s.body_f[body]
        out.v = out.v + (m.gravity[0] * m.body_gravity_scale[body] + k.spatial_top(f) * inv_mass) * time
        out.w = out.w + inertia_times(inertia[body], k.spatial_bottom(f)) * time
    return out


@k.kernel
def place_bodies(
    m: Model,
    s: State,
    velocity: k.array(dtype=BodyVelocity, layout="rows"),
    motion: k.array(dtype=BodyMotion, layout="rows"),
    frame: k.array(dtype=BodyFrame, layout="rows"),
    inertia: k.array(dtype=BodyInertia, layout="rows"),
    ahead: float,
    pose: k.array(dtype=k.transform),
):
    """Centres of mass and orientations `ahead` seconds after the last substep."""
    i = k.tid()
    moving = free_velocity(m, s, velocity, frame, inertia, i, ahead)
    centre = frame[i].c + motion[i].p + moving.v * ahead
    pose[i] = k.transform(centre, rotated(frame[i].q, moving.w * ahead))


@k.func
def arm(m: Model, pose: k.array(dtype=k.transform), body: int, point: int) -> k.vec3:
    """From the centre of mass to a point of the body, in the world, m."""
    return k.quat_rotate(pose[body].q, m.boundary_q[point] - m.body_com[body])


@k.kernel
def move_points(
    m: Model,
    s: State,
    velocity: k.array(dtype=BodyVelocity, layout="rows"),
    frame: k.array(dtype=BodyFrame, layout="rows"),
    inertia: k.array(dtype=BodyInertia, layout="rows"),
    pose: k.array(dtype=k.transform),
    time: float,
    slot: k.array(dtype=int),
    points: int,
    point_velocity: k.array(dtype=Motion, layout="rows"),
    size: k.array(dtype=k.vec3),
):
    """Velocities of the points of bodies `time` after the last substep; their squared size thrice, for the bounds."""
    i = k.tid()
    body = m.boundary_body[i]
    moving = free_velocity(m, s, velocity, frame, inertia, body, time)
    v = moving.v + k.cross(moving.w, arm(m, pose, body, i))
    point_velocity[points + slot[i]] = Motion(v, 0.0)
    size[i] = k.vec3(k.dot(v, v))


@k.kernel(shape="thread")
def list_particles(
    place: k.array(dtype=Place, layout="rows"),
    starts: k.array(dtype=int),
    image_starts: k.array(dtype=int),
    placed: k.array(dtype=k.vec3),
    lower: k.vec3,
    per_metre: float,
    dims: k.vec3i,
    reach: float,
    npoint: int,
    nparticle: int,
    periodic: int,
    neighbour: k.array(dtype=int, ndim=2),
    count: k.array(dtype=int),
    capacity: int,
):
    """Particles, and their images, near each group of points of bodies. `count` also counts those without room."""
    group = k.tid()
    cluster = Cluster()
    for n in range(GROUP):
        cluster = join(cluster, n, placed[min(group * GROUP + n, npoint - 1)], lower, per_metre)
    count[group] = add_near(cluster, place, 0, starts, periodic, nparticle, image_starts, dims, reach, neighbour, group,
                            0, capacity)  # fmt: skip


@k.kernel(shape="lanes", lanes=GROUP)
def press_points(
    m: Model,
    place: k.array(dtype=Place, layout="rows"),
    push: k.array(dtype=float),
    placed: k.array(dtype=k.vec3),
    neighbour: k.array(dtype=int, ndim=2),
    count: k.array(dtype=int),
    support: float,
    npoint: int,
    force: k.array(dtype=k.vec3),
):
    """Force of the pressure on each point, N: against that of the point on the particles."""
    group, lane = k.tid()
    i = group * GROUP + lane
    if i >= npoint:
        return
    x = placed[i]
    sum = k.vec3(0.0)
    for n in range(count[group]):
        j = neighbour[group, n]
        there = place[j]
        gap = there.x - x
        sum += gap * (there.volume * push[j] * bend(k.dot(gap, gap), support))
    force[i] = sum * (slope_scale(support) * m.boundary_volume[i])


@k.kernel(shape="lanes", lanes=GROUP)
def drag_points(
    m: Model,
    s: State,
    place: k.array(dtype=Place, layout="rows"),
    velocity: k.array(dtype=Motion, layout="rows"),
    placed: k.array(dtype=k.vec3),
    slot: k.array(dtype=int),
    neighbour: k.array(dtype=int, ndim=2),
    count: k.array(dtype=int),
    support: float,
    npoint: int,
    nparticle: int,
    points: int,
    source: k.array(dtype=int),
    force: k.array(dtype=k.vec3),
):
    """Force of the viscosity against solids on each point, N."""
    group, lane = k.tid()
    i = group * GROUP + lane
    if i >= npoint:
        return
    x = placed[i]
    v = velocity[points + slot[i]].v
    sum = k.vec3(0.0)
    for n in range(count[group]):
        j = neighbour[group, n]
        there = place[j]
        gap = there.x - x
        fluid = s.particle_fluid[j if j < nparticle else source[j - nparticle]]
        drag = m.fluid_wall_viscosity[fluid] * m.fluid_density[fluid]
        sum -= gap * (there.volume * drag * drag_shape(gap, velocity[j].v - v, support))
    force[i] = sum * (drag_scale(support) * m.boundary_volume[i])


@k.kernel(shape="lanes", lanes=GROUP)
def yield_points(
    m: Model,
    place: k.array(dtype=Place, layout="rows"),
    placed: k.array(dtype=k.vec3),
    pose: k.array(dtype=k.transform),
    frame: k.array(dtype=BodyFrame, layout="rows"),
    inertia: k.array(dtype=BodyInertia, layout="rows"),
    neighbour: k.array(dtype=int, ndim=2),
    count: k.array(dtype=int),
    support: float,
    npoint: int,
    mobility: k.array(dtype=float),
    size: k.array(dtype=k.vec3),
):
    """mobility: at most how far a body gives way at a point (root of 1 / kg), times its volume; size: that, times how
    much the particles near the point press there if all have one pressure."""
    group, lane = k.tid()
    i = group * GROUP + lane
    if i >= npoint:
        return
    body = m.boundary_body[i]
    r = arm(m, pose, body, i)
    turned = 0.0  # largest acceleration of the point by turning: |r|² times the inverse inertia's trace
    for a in range(3):
        axis = k.vec3(0.0)
        axis[a] = 1.0
        turned += inertia_times(inertia[body], axis)[a]
    own = m.boundary_volume[i] * k.sqrt(frame[body].inv_mass + k.dot(r, r) * turned)
    x = placed[i]
    sum = 0.0
    for n in range(count[group]):
        there = place[neighbour[group, n]]
        gap = there.x - x
        gap_sq = k.dot(gap, gap)
        sum -= there.volume * slope(gap_sq, support) * k.sqrt(gap_sq)
    mobility[i] = own
    size[i] = k.vec3(own * sum)


@k.kernel
def yield_bodies(
    start: k.array(dtype=int), size: k.array(dtype=k.vec3), answer: k.array(dtype=BodyVelocity, layout="rows")
):
    """The sum of `size` over the points of each body."""
    i = k.tid()
    sum = k.vec3(0.0)
    for j in range(start[i], start[i + 1]):
        sum += size[j]
    answer[i].v = sum


@k.kernel
def spread_yield(
    m: Model,
    answer: k.array(dtype=BodyVelocity, layout="rows"),
    mobility: k.array(dtype=float),
    density: float,
    slot: k.array(dtype=int),
    points: int,
    row: k.array(dtype=float),
):
    i = k.tid()
    row[points + slot[i]] = mobility[i] * answer[m.boundary_body[i]].v.x * density


@k.kernel(shape="lanes", lanes=GROUP)
def add_yield(
    place: k.array(dtype=Place, layout="rows"),
    neighbour: k.array(dtype=int, ndim=2),
    count: k.array(dtype=int),
    support: float,
    nparticle: int,
    nfluid: int,
    row: k.array(dtype=float),
    factor: k.array(dtype=float, layout="planes"),
):
    """factor = 1 / max(D, YIELD of what the bodies near a particle give way when all around them press); its sign
    stays."""
    group, lane = k.tid()
    i = group * GROUP + lane
    if i >= nparticle:
        return
    x = place[i].x
    sum = 0.0
    for n in range(count[group]):
        j = neighbour[group, n]
        gap = x - place[j].x
        gap_sq = k.dot(gap, gap)
        sum -= k.select(j < nfluid, 0.0, row[j]) * slope(gap_sq, support) * k.sqrt(gap_sq)
    factor[i] = factor[i] / k.select_max(1.0, YIELD * k.abs(factor[i]) * sum)


@k.kernel
def push_bodies(
    m: Model,
    pose: k.array(dtype=k.transform),
    frame: k.array(dtype=BodyFrame, layout="rows"),
    inertia: k.array(dtype=BodyInertia, layout="rows"),
    start: k.array(dtype=int),
    force: k.array(dtype=k.vec3),
    answer: k.array(dtype=BodyVelocity, layout="rows"),
):
    """Accelerations of the bodies by the forces on their points."""
    i = k.tid()
    sum = k.vec3(0.0)
    torque = k.vec3(0.0)
    for j in range(start[i], start[i + 1]):
        sum += force[j]
        torque += k.cross(arm(m, pose, i, j), force[j])
    answer[i].v = sum * frame[i].inv_mass
    answer[i].w = inertia_times(inertia[i], torque)


@k.kernel
def answer_points(
    m: Model,
    pose: k.array(dtype=k.transform),
    answer: k.array(dtype=BodyVelocity, layout="rows"),
    slot: k.array(dtype=int),
    points: int,
    velocity: k.array(dtype=Motion, layout="rows"),
    keep: float,
    time: float,
    moved: k.array(dtype=Motion, layout="rows"),
):
    """Of points of bodies: keep × their velocities + time × their accelerations."""
    i = k.tid()
    body = m.boundary_body[i]
    a = answer[body].v + k.cross(answer[body].w, arm(m, pose, body, i))
    row = points + slot[i]
    moved[row] = Motion(velocity[row].v * keep + a * time, 0.0)


@k.requires(lambda tid, answer, velocity: tid < answer.shape[0] and tid < velocity.shape[0])
@k.kernel
def accelerate_by_fluid(
    answer: k.array(dtype=BodyVelocity, layout="rows"),
    time: float,
    velocity: k.array(dtype=BodyVelocity, layout="rows"),
):
    i = k.tid()
    velocity[i].v = velocity[i].v + answer[i].v * time
    velocity[i].w = velocity[i].w + answer[i].w * time


class FluidBodies:
    """The bodies of a model that have points in the fluid. `ahead` is the time since the last substep."""

    def __init__(self, model: Model, state: State, rows: BodyRows, near: Neighbours):
        self.model, self.state, self.rows, self.near = model, state, rows, near
        owner = model.boundary_body.numpy()
        device, nbody = model.device, model.count["nbody"]
        self._device, self._nbody = device, nbody
        self.npoint = n = int((owner >= 0).sum())  # the world's come last
        self._groups = groups_of(n)
        starts = np.searchsorted(owner[:n], np.arange(nbody + 1)).astype(np.int32)
        self._start = array(starts, dtype=k.int32, device=device)
        self._count = zeros(self._groups, dtype=int, device=device)
        self._force = zeros(n, dtype=k.vec3, device=device)
        self._size = zeros(n, dtype=k.vec3, device=device)
        self._mobility = zeros(n, dtype=float, device=device)
        self._density = float(model.fluid_density.numpy().max(initial=0.0))
        self._answer = zeros(nbody, dtype=BodyVelocity, device=device, layout="rows")
        self._bounds = Bounds(max(n, 1), device)
        self._drags = bool(np.any(model.fluid_wall_viscosity.numpy() > 0.0))
        self._reserve(CAPACITY)

    def _reserve(self, capacity: int) -> None:
        self._capacity = capacity
        self._list = zeros((self._groups, capacity), dtype=int, device=self._device)

    def _launch(self, kernel: Any, dim: Any, *inputs: Any) -> None:
        launch(kernel, dim, inputs=list(inputs), device=self._device)

    def place(self, ahead: float) -> None:
        """Poses for the neighbour search, which places the points by them."""
        self._launch(place_bodies, self._nbody, self.model, self.state, *self.rows, ahead, self.near.pose)

    def update(self) -> None:
        """Lists the particles near each point, after the search."""
        if not self.npoint:
            return
        near = self.near
        while True:
            self._launch(
                list_particles, self._groups, near.place, near.starts, near.image_starts, near.placed,
                *near.grid, near.reach, self.npoint, near.nparticle, int(near.images is not None), self._list,
                self._count, self._capacity,
            )  # fmt: skip
            most = near.largest(self._count)
            if most < self._capacity:  # as in Neighbours
                return
            self._reserve(most + 4)

    def move(self, time: float) -> None:
        """The points' velocities `time` seconds after the last substep, which the fluid then flows around."""
        near, rows = self.near, self.rows
        self._launch(
            move_points, self.npoint, self.model, self.state, rows.velocity, rows.frame, rows.inertia, near.pose, time,
            near.slot, near.nfluid, near.velocity, self._size,
        )  # fmt: skip

    def fastest(self) -> float:
        """The largest speed of a point as of the last `move`, m/s."""
        if not self.npoint:
            return 0.0
        self._bounds.run(self._size, self._size, self.npoint)
        return math.sqrt(max(float(self._bounds.upper.numpy()[0, 0]), 0.0))

    def press(self, push: Any, keep: float, time: float, moved: Any) -> None:
        """What the pressure (Pa) of the particles makes of the bodies; their points' rows of `moved`, which are
        keep × the velocities of the last `move` + time × the accelerations."""
        near = self.near
        self._launch(
            press_points, (self._groups, GROUP), self.model, near.place, push, near.placed, self._list, self._count,
            near.support, self.npoint, self._force,
        )  # fmt: skip
        self._sum()
        self._launch(
            answer_points, self.npoint, self.model, near.pose, self._answer, near.slot, near.nfluid, near.velocity,
            keep, time, moved,
        )  # fmt: skip

    def soften(self, factor: Any, rows: Any) -> None:
        """Takes what bodies give way into `factor`, the inverse diagonal of the pressure solve. rows: scratch, 0 in the
        end; what `fastest` reads is lost until the next `move`.

        A body answers the pressure of all particles around it, which a particle's own D knows nothing of: Jacobi's
        iterations then explode where bodies are light or have few points. The sum of a row's absolute values
        (Gershgorin) bounds what the body does; YIELD of it was enough for boxes of a hundredth of the fluid's density.
        """
        near, bodies = self.near, self.rows
        self._launch(
            yield_points, (self._groups, GROUP), self.model, near.place, near.placed, near.pose, bodies.frame,
            bodies.inertia, self._list, self._count, near.support, self.npoint, self._mobility, self._size,
        )  # fmt: skip
        self._launch(yield_bodies, self._nbody, self._start, self._size, self._answer)
        self._launch(
            spread_yield, self.npoint, self.model, self._answer, self._mobility, self._density, near.slot, near.nfluid,
            rows,
        )  # fmt: skip
        near.refresh(rows)
        lists = [near.place, near.list, near.count, near.support, near.nparticle, near.nfluid]
        near.sweep(add_yield, *lists, rows, factor)
        rows.zero_()

    def drag(self, h: float) -> None:
        """Viscosity against solids, for h seconds, with the velocities of the last `move`."""
        if not self._drags:
            return
        near = self.near
        self._launch(
            drag_points, (self._groups, GROUP), self.model, self.state, near.place, near.velocity, near.placed,
            near.slot, self._list, self._count, near.support, self.npoint, near.nparticle,
            near.nfluid, near.source, self._force,
        )  # fmt: skip
        self._sum()
        self.accelerate(h)

    def accelerate(self, time: float) -> None:
        """The bodies' velocities after `time` of the last accelerations."""
        self._launch(accelerate_by_fluid, self._nbody, self._answer, time, self.rows.velocity)

    def _sum(self) -> None:
        rows, near = self.rows, self.near
        self._launch(
            push_bodies, self._nbody, self.model, near.pose, rows.frame, rows.inertia, self._start, self._force,
            self._answer,
        )  # fmt: skip
