"""WCSPH: weakly compressible fluids (Becker & Teschner 2007), whose pressure follows from the density alone.

    neighbours ─► density ─► gravity, viscosity, tension ─► pressure by the Tait equation ─► move

p = ρ₀ c² / 7 ((ρ / ρ₀)⁷ − 1), never negative. The speed of sound c is `sound_speed`, or ten times the fastest that the
fluid can fall, or move at the start: densities then vary by about a hundredth. Sound may not pass more than 0.4
diameters in a step.
"""

from __future__ import annotations

import math

import numpy as np

from engine.compiler import lang as k
from engine.kernels.reduce import sum_rows
from engine.sim.cubic_spline import weight
from engine.sim.fluid_settings import Settings
from engine.sim.fluid_solver import FluidSolver
from engine.sim.particle_cells import GROUP, Place
from engine.sim.solver_soft_step_bodies import BodyRows
from engine.sim.stats import StageClock
from engine.state.model import Model
from engine.state.schema import UNLIMITED
from engine.state.tables import State

MACH = 0.1  # of the fastest that is foreseen
SOUND = 0.4  # diameters that sound may pass in a step


@k.kernel(shape="lanes", lanes=GROUP)
def sum_density(
    s: State,
    place: k.array(dtype=Place, layout="rows"),
    neighbour: k.array(dtype=int, ndim=2),
    count: k.array(dtype=int),
    support: float,
    error: k.array(dtype=float),
):
    """Relative density, and what it is above 1."""
    group, lane = k.tid()
    i = group * GROUP + lane
    if i >= s.nparticle:
        return
    here = place[i]
    density = 0.0
    for n in range(count[group]):
        there = place[neighbour[group, n]]
        gap = here.x - there.x
        density += there.volume * weight(k.dot(gap, gap), support)
    s.particle_density[i] = density
    error[i] = k.select_max(density - 1.0, 0.0)


@k.requires(lambda tid, m, s, push: tid < push.shape[0] and tid < s.particle_q.shape[0]
    and 0 <= s.particle_fluid[tid] and s.particle_fluid[tid] < m.fluid_density.shape[0])  # fmt: skip
@k.kernel
def follow_density(m: Model, s: State, sound: float, push: k.array(dtype=float)):
    """Tait's pressure, Pa."""
    i = k.tid()
    ratio = k.select_max(s.particle_density[i], 1.0)
    cube = ratio * ratio * ratio
    pressure = sound * sound / 7.0 * (cube * cube * ratio - 1.0)
    s.particle_pressure[i] = pressure
    push[i] = m.fluid_density[s.particle_fluid[i]] * pressure


class Wcsph(FluidSolver):
    """See FluidSolver. `sound_speed` in m/s."""

    def __init__(self, model: Model, state: State, rows: BodyRows, settings: Settings | None = None):
        super().__init__(model, state, rows, settings)
        self.sound_speed = self.settings.sound_speed or self._foreseen() / MACH
        self._limits.append(SOUND * self.diameter / self.sound_speed)

    def _foreseen(self) -> float:
        """The fastest that a particle can fall in the domain, or moves at the start; of still fluid in space 1 m/s."""
        m = self.model
        q, v = (np.vstack([a.numpy(), b.numpy()]).astype(float)
                for a, b in ((m.particle_q, m.emitter_point), (m.particle_qd, m.emitter_velocity)))  # fmt: skip
        lower, upper = (x.numpy()[0].astype(float) for x in (m.domain_lower, m.domain_upper))
        lower = np.where(lower > -0.5 * UNLIMITED, lower, q.min(axis=0))
        upper = np.where(upper < 0.5 * UNLIMITED, upper, q.max(axis=0))
        fall = float(np.abs(m.gravity.numpy()[0].astype(float)) @ (upper - lower))
        return math.sqrt(2.0 * fall + float((v**2).sum(axis=1).max())) or 1.0

    def _step(self, clock: StageClock, left: float, ahead: float) -> float:
        with clock("neighbours"):
            self._find_neighbours(ahead)
        with clock("density"):
            self.near.sweep(sum_density, self.state, self.near.place, *self._list(), self.support,
                              self._errors)  # fmt: skip
        h = self._step_length(left)
        with clock("forces"):
            self._add_forces(h, ahead)
        with clock("pressure"):
            self._sweep(follow_density, self.model, self.state, self.sound_speed, self._push)
            self._press()
            self._accelerate(h)
        with clock("move"):
            sum_rows(self._error, self._sum, self.nparticle)
            self.stats.density_error = float(self._sum.numpy()[0]) / self.nparticle
            self._move(h)
        return h
