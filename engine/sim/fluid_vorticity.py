"""Vorticity confinement (Steinhoff & Underhill 1994; for particles Macklin & Müller 2013): gives back lost whirls.

    ω_i = Σ V ∇W × (v_i − v_j),   N = ∇|ω| / |∇|ω||,   a_i = ε d N × ω_i

with the diameter d. It makes energy, and momentum is kept on average only: a choice for pictures, off by default.
"""

# mypy: disable-error-code="call-arg"
# (structs have no constructor that mypy sees)

from __future__ import annotations

from engine.compiler import lang as k
from engine.context import zeros
from engine.sim.cubic_spline import slope
from engine.sim.particle_cells import GROUP, Place
from engine.sim.particle_neighbours import Motion, Neighbours
from engine.state.tables import State


@k.struct
class Whirl:  # 16 bytes
    turn: k.vec3  # 1/s
    speed: float  # its size


@k.kernel(shape="lanes", lanes=GROUP)
def find_whirls(
    place: k.array(dtype=Place, layout="rows"),
    velocity: k.array(dtype=Motion, layout="rows"),
    neighbour: k.array(dtype=int, ndim=2),
    count: k.array(dtype=int),
    support: float,
    nparticle: int,
    nfluid: int,
    whirl: k.array(dtype=Whirl, layout="rows"),
):
    group, lane = k.tid()
    i = group * GROUP + lane
    if i >= nparticle:
        return
    here = place[i].x
    own = velocity[i].v
    sum = k.vec3(0.0)
    for n in range(count[group]):
        j = neighbour[group, n]
        if j < nfluid:
            there = place[j]
            gap = here - there.x
            sum += k.cross(gap, velocity[j].v - own) * (there.volume * slope(k.dot(gap, gap), support))
    whirl[i] = Whirl(sum, k.length(sum))


@k.kernel(shape="lanes", lanes=GROUP)
def confine(
    s: State,
    place: k.array(dtype=Place, layout="rows"),
    neighbour: k.array(dtype=int, ndim=2),
    count: k.array(dtype=int),
    support: float,
    nparticle: int,
    nfluid: int,
    whirl: k.array(dtype=Whirl, layout="rows"),
    strength: float,
):
    group, lane = k.tid()
    i = group * GROUP + lane
    if i >= nparticle:
        return
    here = place[i].x
    own = whirl[i]
    rise = k.vec3(0.0)
    for n in range(count[group]):
        j = neighbour[group, n]
        if j < nfluid:
            there = place[j]
            gap = here - there.x
            rise += gap * (there.volume * (whirl[j].speed - own.speed) * slope(k.dot(gap, gap), support))
    size = k.length(rise)
    if size > 1.0e-6 * own.speed / support:
        s.particle_qd[i] = s.particle_qd[i] + k.cross(rise / size, own.turn) * strength


class Confinement:
    """Accelerates the particles of `state` with the lists of `near`."""

    def __init__(self, state: State, near: Neighbours, strength: float):
        self._state, self._near, self._strength, self._rows = state, near, strength, 0

    def accelerate(self, h: float) -> None:
        """h seconds of it, by the velocities in near.velocity."""
        near = self._near
        if self._rows < near.rows:
            self._rows = near.rows
            self._whirl = zeros(near.rows, dtype=Whirl, device=near.device, layout="rows")
        swept = [near.list, near.count, near.support, near.nparticle, near.nfluid, self._whirl]
        self._near.sweep(find_whirls, near.place, near.velocity, *swept)
        near.refresh(self._whirl)
        self._near.sweep(confine, self._state, near.place, *swept, self._strength * 0.5 * near.support * h)
