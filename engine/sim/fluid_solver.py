"""What fluid solvers share: the arrays, neighbours, the length of steps, gravity and viscosity, motion, reports.

A solver's `_step` names its stages in order; what each array holds is set anew in every step, but for the State.
"""

# mypy: disable-error-code="call-arg"
# (structs have no constructor that mypy sees)

from __future__ import annotations

import math
from typing import Any

import numpy as np

from engine.compiler import lang as k
from engine.context import launch, zeros
from engine.errors import SimulationError
from engine.kernels.reduce import Bounds, sum_rows
from engine.sim.cubic_spline import bend, slope_scale
from engine.sim.fluid_bodies import FluidBodies
from engine.sim.fluid_emitters import Emitters
from engine.sim.fluid_settings import Settings
from engine.sim.fluid_tension import SurfaceTension
from engine.sim.fluid_viscosity import ImplicitViscosity
from engine.sim.fluid_vorticity import Confinement
from engine.sim.particle_cells import GROUP, Place
from engine.sim.particle_images import wrapped
from engine.sim.particle_neighbours import Motion, Neighbours, drag_scale, drag_shape
from engine.sim.solver_soft_step_bodies import BodyRows
from engine.sim.stats import FluidStats, StageClock
from engine.state.model import Model
from engine.state.tables import State


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


@k.kernel(shape="lanes", lanes=GROUP)
def press(
    m: Model,
    s: State,
    place: k.array(dtype=Place, layout="rows"),
    push: k.array(dtype=float),
    neighbour: k.array(dtype=int, ndim=2),
    count: k.array(dtype=int),
    support: float,
    velocity: k.array(dtype=Motion, layout="rows"),
    keep: float,
    time: float,
    moved: k.array(dtype=Motion, layout="rows"),
):
    """keep × the velocity + time × the acceleration by pressure."""
    group, lane = k.tid()
    i = group * GROUP + lane
    if i >= s.nparticle:
        return
    here = place[i]
    own = push[i]
    sum = k.vec3(0.0)
    for n in range(count[group]):
        j = neighbour[group, n]
        there = place[j]
        gap = there.x - here.x
        sum += gap * (there.volume * (own + push[j]) * bend(k.dot(gap, gap), support))
    a = sum * (slope_scale(support) / m.fluid_density[s.particle_fluid[i]])
    moved[i] = Motion(velocity[i].v * keep + a * time, 0.0)


@k.requires(lambda tid, s, moved: tid < moved.shape[0] and tid < s.particle_q.shape[0])
@k.kernel
def accelerate(s: State, moved: k.array(dtype=Motion, layout="rows"), h: float):
    """h seconds of accelerations."""
    i = k.tid()
    s.particle_qd[i] += h * moved[i].v


@k.kernel(shape="lanes", lanes=GROUP)
def add_forces(
    m: Model,
    s: State,
    place: k.array(dtype=Place, layout="rows"),
    velocity: k.array(dtype=Motion, layout="rows"),
    neighbour: k.array(dtype=int, ndim=2),
    count: k.array(dtype=int),
    support: float,
    nfluid: int,
    h: float,
):
    """Gravity, and viscosity as a Laplacian of the velocities.

    Between fluids acts the mean of their dynamic viscosities, so that momentum is kept.
    """
    group, lane = k.tid()
    i = group * GROUP + lane
    if i >= s.nparticle:
        return
    here = place[i]
    v = velocity[i].v
    fluid = s.particle_fluid[i]
    inner = velocity[i].drag
    wall = m.fluid_wall_viscosity[fluid] * m.fluid_density[fluid]
    sum = k.vec3(0.0)
    if inner > 0.0 or wall > 0.0:
        for n in range(count[group]):
            j = neighbour[group, n]
            there = place[j]
            gap = here.x - there.x
            moving = velocity[j]
            drag = k.select(j < nfluid, 0.5 * (inner + moving.drag), wall)
            sum += gap * (drag * there.volume * drag_shape(gap, v - moving.v, support))
    s.particle_qd[i] = v + h * (m.gravity[0] + sum * (drag_scale(support) / m.fluid_density[fluid]))


@k.requires(lambda tid, m, s: tid < s.particle_q.shape[0] and 1 <= m.gravity.shape[0])
@k.kernel
def fall(m: Model, s: State, h: float):
    i = k.tid()
    s.particle_qd[i] += h * m.gravity[0]


@k.requires(lambda tid, s, bad: tid < s.particle_q.shape[0] and tid < bad.shape[0])
@k.kernel
def mark_bad(s: State, bad: k.array(dtype=int)):
    i = k.tid()
    x = s.particle_q[i]
    v = s.particle_qd[i]
    bad[i] = 0 if k.isfinite(k.dot(x, x)) and k.isfinite(k.dot(v, v)) else 1


@k.requires(lambda tid, s, excess: tid < s.particle_density.shape[0] and tid < excess.shape[0])
@k.kernel
def measure_compression(s: State, excess: k.array(dtype=float)):
    i = k.tid()
    excess[i] = k.select_max(s.particle_density[i] - 1.0, 0.0)


@k.func
def flows_out(m: Model, x: k.vec3) -> bool:
    """Whether a place is in an outflow, or outside a domain without walls."""
    low = m.domain_lower[0]
    high = m.domain_upper[0]
    out = False
    if m.domain_open[0] == 1:
        out = x.x < low.x or x.y < low.y or x.z < low.z or x.x > high.x or x.y > high.y or x.z > high.z
    for b in range(len(m.outflow_lower)):
        a = m.outflow_lower[b]
        c = m.outflow_upper[b]
        inside = x.x >= a.x and x.y >= a.y and x.z >= a.z and x.x <= c.x and x.y <= c.y and x.z <= c.z
        out = out or inside
    return out


@k.requires(lambda tid, m, s, clamped, bad, gone: tid < s.particle_q.shape[0] and 1 <= m.domain_lower.shape[0]
    and 1 <= m.domain_upper.shape[0] and 1 <= m.domain_period.shape[0]
    and tid < clamped.shape[0] and tid < bad.shape[0] and tid < gone.shape[0])  # fmt: skip
@k.kernel
def move(
    m: Model, s: State, h: float, clamped: k.array(dtype=int), bad: k.array(dtype=int), gone: k.array(dtype=int)
):
    """New positions. `clamped`: those that the domain's walls had to stop, as their points let them by; `gone`: those
    that are to be removed."""
    i = k.tid()
    x = s.particle_q[i] + h * s.particle_qd[i]
    v = s.particle_qd[i]
    known = k.isfinite(x.x) and k.isfinite(x.y) and k.isfinite(x.z)
    x = wrapped(x, m.domain_lower[0], m.domain_period[0])
    low = m.domain_lower[0]
    high = m.domain_upper[0]
    inside = k.vec3(
        k.select_max(low.x, k.select_min(x.x, high.x)),
        k.select_max(low.y, k.select_min(x.y, high.y)),
        k.select_max(low.z, k.select_min(x.z, high.z)),
    )
    leaves = known and flows_out(m, x)
    outside = not leaves and (x.x != inside.x or x.y != inside.y or x.z != inside.z)
    clamped[i] = 1 if outside and known else 0
    bad[i] = 0 if known else 1
    gone[i] = 1 if leaves else 0
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


MOST_COMPRESSION, CROWDED_FRAMES = 0.1, 3  # mean excess of density that a fluid may have; a wave full of boxes has 0.01


class FluidSolver:
    """Advances the particles of `state`, in as many steps as the CFL condition asks for.

    rows: the bodies, as the rigid solver has them between its substeps. A frame is `begin`, then one or more `advance`,
    each followed by a substep of the bodies.
    """

    REACH = 1.0  # of the lists of neighbours, in supports: more where places move before the lists are made anew

    def __init__(self, model: Model, state: State, rows: BodyRows, settings: Settings | None = None):
        self.model, self.state = model, state
        self.settings = settings or Settings()
        n, device = state.count["nparticle"], model.device
        radius = float(model.particle_radius.numpy()[0])
        self.diameter, self.support = 2.0 * radius, 4.0 * radius
        self.device = device
        self.near = Neighbours(model, state, self.support, self.diameter**3, self.support * self.REACH)
        bodies = FluidBodies(model, state, rows, self.near)
        self._bodies = bodies if bodies.npoint else None
        self._rows, self._nfluid, self._room = 0, n, -1
        self._sum = zeros(1, dtype=float, device=device)
        self._flag_sums = zeros(3, dtype=int, device=device)
        self._fit()
        self._emitters = Emitters(model, state, self.diameter) if model.count["nemitter"] else None
        self._limits: list[float] = [self.settings.longest_step]  # of a step, s
        self._viscosity = self._choose_viscosity()
        self._tension = self._confinement = None
        if np.any(model.fluid_surface_tension.numpy() > 0.0):
            self._tension = SurfaceTension(model, state, self.near)
            self._limits.append(self._tension.longest_step)
        if self.settings.vorticity > 0.0:
            self._confinement = Confinement(state, self.near, self.settings.vorticity)
        self.stats = FluidStats(particles=n)
        self._frame = self._crowded = 0
        self._compression = 0.0
        self._check_finite()

    def _choose_viscosity(self) -> ImplicitViscosity | None:
        """Limits the step to what explicit viscosity can take, and makes the implicit solve where it is wanted."""
        m, settings = self.model, self.settings
        inside, wall = (float(x.numpy().max()) for x in (m.fluid_viscosity, m.fluid_wall_viscosity))
        # explicit diffusion: Morris et al. 1997, with the smoothing length of a cubic spline
        limit = 0.125 * self.diameter**2
        step = limit / max(inside, wall) if max(inside, wall) > 0.0 else math.inf
        implicit = settings.implicit_viscosity
        if implicit is None:
            implicit = step < settings.longest_step
        if not implicit or max(inside, wall) == 0.0:
            self._limits.append(step)
            return None
        if wall > 0.0 and self._bodies:  # bodies feel the walls' viscosity explicitly
            self._limits.append(limit / wall)
        return ImplicitViscosity(m, self.state, self.near, settings)

    def _fit(self) -> None:
        """Follows the number of particles."""
        self.nparticle = self.state.count["nparticle"]
        if self.nparticle != self.near.nparticle:
            self.near.fit()
        if self._room < self.near.room:
            self._room = self.near.room
            self._reserve(self._room)
        self._fit_rows()

    def _reserve(self, room: int) -> None:
        """Arrays for up to `room` particles; what they hold is made anew in each step."""
        device = self.device
        self._flags = zeros((3, room), dtype=int, device=device)  # clamped, bad, gone
        self._bounds = Bounds(room, device)
        self._error = zeros((1, room), dtype=float, device=device)
        self._errors = self._error.reshape(room)

    def _fit_rows(self) -> None:
        """Arrays with a row for each place grow with the neighbours' own."""
        if self._rows < self.near.rows:
            self._rows = n = self.near.rows
            self._moved = zeros(n, dtype=Motion, device=self.device, layout="rows")
            self._push = zeros(n, dtype=float, device=self.device)

    def begin(self, frame: int, time: float = 0.0) -> None:
        """Of a frame, at `time` (s): checks numbers. Raises SimulationError naming a particle that is not finite."""
        self._fit()
        if self._emitters:
            self._emitters.recall()
        self.stats = FluidStats(particles=self.nparticle)
        self._frame, self._time = frame, time
        self._sweep(mark_bad, self.state, self._flags[1])
        self._check_compression()
        self._flags[0].zero_()
        self._flags[2].zero_()
        self._count_flags()

    def advance(self, clock: StageClock, span: float) -> None:
        """`span` seconds, at the end of which the bodies are moved. Raises SimulationError as `begin`."""
        left = span
        while left > 1e-6 * span:
            self._emit(self._time + span - left)
            h = self._step(clock, left, span - left) if self.nparticle else min(left, self.settings.longest_step)
            left -= h
            self.stats.steps += 1
            self.stats.time_step = h
        self._time += span
        self.stats.particles = self.nparticle

    def _emit(self, time: float) -> None:
        if self._emitters and (added := self._emitters.emit(time)):
            self.stats.emitted += added
            self._fit()

    def _step(self, clock: StageClock, left: float, ahead: float) -> float:
        """One step, at most `left` long, `ahead` seconds after the bodies were moved; returns its length."""
        raise NotImplementedError

    # -- the stages ----------------------------------------------------------------------------------------------------

    def _sweep(self, kernel: Any, *inputs: Any) -> None:
        launch(kernel, self.nparticle, inputs=list(inputs), device=self.device)

    def _list(self) -> tuple[Any, Any]:
        return self.near.list, self.near.count

    def _find_neighbours(self, ahead: float) -> None:
        """Lists, and velocities of the points of bodies `ahead` seconds after those were moved."""
        bodies = self._bodies
        if bodies:
            bodies.place(ahead)
        self.near.update()
        self._fit_rows()
        if bodies or self._nfluid != self.near.nfluid:  # solids' rows were others': no pressure, and the world is still
            self._nfluid = self.near.nfluid
            for rows in (self._push, self._moved, self.near.velocity):
                rows.zero_()
        if bodies:
            bodies.update()
        self._begin_velocities(ahead)

    def _sweep_velocities(self) -> None:
        self._sweep(begin_velocities, self.model, self.state, self.near.velocity, self.near.scratch)

    def _begin_velocities(self, ahead: float) -> None:
        """The velocities of now in the neighbours' rows."""
        self._sweep_velocities()
        if self._bodies:
            self._bodies.move(ahead)
        self.near.refresh(self.near.velocity)

    def _step_length(self, left: float) -> float:
        """The CFL condition for the velocities of now; what is left of the frame is divided evenly."""
        self._bounds.run(self.near.scratch, self.near.scratch, self.nparticle)
        gravity = float(np.linalg.norm(self.model.gravity.numpy()[0]))
        speed = math.sqrt(float(self._bounds.upper.numpy()[0, 0]))
        if self._bodies:
            speed = max(speed, self._bodies.fastest())
        if not math.isfinite(speed):
            raise SimulationError("one in the fluid", "body_qd", self._frame)
        self._speed = speed
        fastest = speed + gravity * min(left, self.settings.longest_step)
        h = min(self._limits)
        if fastest > 0.0:
            h = min(h, self.settings.cfl * self.diameter / fastest)
        if h < self.settings.shortest_step:
            self.stats.short_steps += 1
            h = self.settings.shortest_step
        return left / math.ceil(left / h - 1e-6)

    def _add_forces(self, h: float, ahead: float) -> None:
        """All but pressure."""
        if self._viscosity:
            self._solve_viscosity(self._viscosity, h, ahead)
        else:
            self._add_drag(h, ahead)
        for force in (self._tension, self._confinement):
            if force:
                force.accelerate(h)

    def _solve_viscosity(self, viscosity: ImplicitViscosity, h: float, ahead: float) -> None:
        """Gravity, and viscosity by the velocities at the end."""
        self._sweep(fall, self.model, self.state, h)
        self._begin_velocities(ahead)
        viscosity.solve(h, self.stats)
        if self._bodies or self._confinement:
            self._begin_velocities(ahead)
        if self._bodies:
            self._bodies.drag(h)

    def _add_drag(self, h: float, ahead: float) -> None:
        """Gravity, and viscosity by the velocities of now."""
        self._begin_velocities(ahead)
        self.near.sweep(add_forces, self.model, self.state, self.near.place, self.near.velocity, *self._list(),
                          self.support, self.near.nfluid, h)  # fmt: skip
        if self._bodies:
            self._bodies.drag(h)

    def _press(self, keep: float = 0.0, time: float = 1.0) -> None:
        """`_moved`: keep × velocities + time × accelerations by the pressures `_push`, of bodies, too."""
        near = self.near
        near.refresh(self._push)
        near.sweep(press, self.model, self.state, near.place, self._push, *self._list(), self.support, near.velocity,
                     keep, time, self._moved)  # fmt: skip
        if self._bodies:
            self._bodies.press(self._push, keep, time, self._moved)
        near.refresh(self._moved)

    def _accelerate(self, h: float) -> None:
        """h seconds of the accelerations in `_moved`."""
        self._sweep(accelerate, self.state, self._moved, h)
        if self._bodies:
            self._bodies.accelerate(h)

    def _move(self, h: float) -> None:
        self._sweep(move, self.model, self.state, h, *(self._flags[row] for row in range(3)))
        self._count_flags()

    # -- what went wrong -----------------------------------------------------------------------------------------------

    def _count_flags(self) -> None:
        sum_rows(self._flags, self._flag_sums, self.nparticle)
        clamped, bad, gone = (int(x) for x in self._flag_sums.numpy())
        self.stats.clamped += clamped
        if bad:
            self._check_finite()
        if gone:
            self.near.remove(self._flags[2], gone)
            self.stats.removed += gone
            self._fit()

    def _check_compression(self) -> None:
        """Raises SimulationError for a fluid that is squeezed more in each frame: there is no room for it, and what the
        solves cannot take out of it would soon make it faster than any step can follow."""
        before, stats = self._compression, self.stats
        self._sweep(measure_compression, self.state, self._errors)
        sum_rows(self._error, self._sum, self.nparticle)
        self._compression = stats.compression = float(self._sum.numpy()[0]) / max(self.nparticle, 1)
        crowded = self._frame > 0 and stats.compression > max(MOST_COMPRESSION, before) and not self.settings.filled
        self._crowded = self._crowded + 1 if crowded else 0
        if self._crowded >= CROWDED_FRAMES:
            reason = f"is {stats.compression:.0%} too high on average: the fluid has no room"
            raise SimulationError("the fluid", "particle_density", self._frame, reason)

    def _check_finite(self) -> None:
        for name in ("particle_q", "particle_qd"):
            with np.errstate(over="ignore", invalid="ignore"):  # what is too large to be squared is as bad as infinity
                squares = (getattr(self.state, name).numpy() ** 2).sum(axis=1)
            wrong = np.flatnonzero(~np.isfinite(squares))
            if len(wrong):
                raise SimulationError(f"particle {self.state.particle_id.numpy()[wrong[0]]}", name, self._frame)
