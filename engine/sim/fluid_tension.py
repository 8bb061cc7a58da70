"""Surface tension (Akinci et al. 2013): particles of one fluid pull at each other, and their surface grows small.

    a_i = −γ Σ K_ij ( m C(r) x_ij / r + n_i − n_j ),   n_i = h Σ V ∇W,   K_ij = 2 / (ρ_i + ρ_j)

over the neighbours of the same fluid, ρ relative: what i does to j, j does to i, and momentum is kept. γ is not the
tension σ in N/m: by Fowler's integral of the pull alone σ = π/8 ρ² γ ∫ r⁴ C dr, or γ = 335 σ / (ρ h)². The second term
adds to it; with STRENGTH in place of 335 a droplet swings as Rayleigh's formula has it.
"""

# mypy: disable-error-code="call-arg"
# (structs have no constructor that mypy sees)

from __future__ import annotations

import math

from engine.compiler import lang as k
from engine.context import zeros
from engine.sim.cubic_spline import slope
from engine.sim.particle_cells import GROUP, Place
from engine.sim.particle_neighbours import Neighbours
from engine.state.model import Model
from engine.state.tables import State

STRENGTH = 230.0


@k.struct
class Surface:  # 16 bytes
    normal: k.vec3  # 1, inward, 0 inside
    density: float  # relative


@k.func
def cohesion(distance: float, support: float) -> float:
    """C(r) in 1/m³: pulls from half the support on, pushes nearer by."""
    rest = support - distance
    cube = rest * rest * rest * distance * distance * distance
    square = support * support
    near = 2.0 * cube - square * square * square / 64.0
    value = k.select(2.0 * distance > support, cube, near)
    return value * (10.185916357881302 / (square * square * square * square * support))  # 32 / π


@k.func
def fluid_of(s: State, source: k.array(dtype=int), nparticle: int, j: int) -> int:
    """The fluid of a particle or of an image."""
    return s.particle_fluid[j if j < nparticle else source[j - nparticle]]


@k.kernel(shape="lanes", lanes=GROUP)
def find_normals(
    s: State,
    place: k.array(dtype=Place, layout="rows"),
    neighbour: k.array(dtype=int, ndim=2),
    count: k.array(dtype=int),
    source: k.array(dtype=int),
    support: float,
    nparticle: int,
    nfluid: int,
    surface: k.array(dtype=Surface, layout="rows"),
):
    group, lane = k.tid()
    i = group * GROUP + lane
    if i >= nparticle:
        return
    here = place[i].x
    fluid = s.particle_fluid[i]
    sum = k.vec3(0.0)
    for n in range(count[group]):
        j = neighbour[group, n]
        if j < nfluid and fluid_of(s, source, nparticle, j) == fluid:
            gap = here - place[j].x
            sum += gap * (place[j].volume * slope(k.dot(gap, gap), support))
    surface[i] = Surface(sum * support, s.particle_density[i])


@k.kernel(shape="lanes", lanes=GROUP)
def pull(
    m: Model,
    s: State,
    place: k.array(dtype=Place, layout="rows"),
    neighbour: k.array(dtype=int, ndim=2),
    count: k.array(dtype=int),
    source: k.array(dtype=int),
    support: float,
    nparticle: int,
    nfluid: int,
    surface: k.array(dtype=Surface, layout="rows"),
    strength: float,
    h: float,
):
    """h seconds of surface tension."""
    group, lane = k.tid()
    i = group * GROUP + lane
    if i >= nparticle:
        return
    here = place[i]
    own = surface[i]
    fluid = s.particle_fluid[i]
    density = m.fluid_density[fluid]
    sum = k.vec3(0.0)
    for n in range(count[group]):
        j = neighbour[group, n]
        gap = here.x - place[j].x
        distance = k.length(gap)
        if distance < support and j < nfluid and fluid_of(s, source, nparticle, j) == fluid:
            mass = density * here.volume
            along = gap * (mass * cohesion(distance, support) / k.select_max(distance, 1.0e-6 * support))
            other = surface[j]
            sum += (along + own.normal - other.normal) * (2.0 / (own.density + other.density))
    pull = strength * m.fluid_surface_tension[fluid] / (density * density * support * support)
    s.particle_qd[i] = s.particle_qd[i] - sum * (pull * h)


class SurfaceTension:
    """Accelerates the particles of `state` with the lists of `near`."""

    def __init__(self, model: Model, state: State, near: Neighbours):
        self._model, self._state, self._near, self._rows = model, state, near, 0
        diameter, density = 0.5 * near.support, model.fluid_density.numpy().astype(float)
        tension = model.fluid_surface_tension.numpy().astype(float)
        # the shortest waves that particles carry (Brackbill et al. 1992), s
        waves = [math.sqrt(r * diameter**3 / (2.0 * math.pi * t)) for r, t in zip(density, tension) if t > 0.0]
        self.longest_step = 0.5 * min(waves, default=math.inf)

    def accelerate(self, h: float) -> None:
        """h seconds of it; densities must be those of now."""
        near = self._near
        if self._rows < near.rows:
            self._rows = near.rows
            self._surface = zeros(near.rows, dtype=Surface, device=near.device, layout="rows")
        lists = [near.place, near.list, near.count, near.source]
        swept = [*lists, near.support, near.nparticle, near.nfluid, self._surface]
        self._near.sweep(find_normals, self._state, *swept)
        near.refresh(self._surface)
        self._near.sweep(pull, self._model, self._state, *swept, STRENGTH, h)
