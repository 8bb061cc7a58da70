"""ModelBuilder's emitters, which add particles while a scene runs, and outflows, which remove them."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, isnan
from typing import Any

import numpy as np

from engine.geom.pose import Floats, as_vector
from engine.sim.builder_core import BuilderCore
from engine.state.schema import UNLIMITED

MOST = 0x7FFFFFFF  # particles of an emitter
MOST_OF_LAYER = 1 << 22


@dataclass(frozen=True, slots=True)
class EmitterRecord:
    """A source of particles: a layer of them, each time the last one has moved on by a diameter."""

    fluid: int
    points: Floats  # (n, 3) m, world
    velocity: Floats  # (3,) m/s
    start: float  # s
    stop: float  # s
    most: int  # particles


class EmitterMethods(BuilderCore):
    """See ModelBuilder."""

    def add_emitter(
        self,
        fluid: int,
        center: Any,
        velocity: Any,
        radius: float,
        *,
        start: float = 0.0,
        stop: float = inf,
        most: int | None = None,
    ) -> int:
        """A round nozzle: particles of a fluid that `add_fluid` gave start within `radius` (m) of `center`, across
        `velocity` (m/s); from `start` to `stop` (s), `most` in all. Returns its index.

        Each layer has the particles' usual distance, and follows the last one at it. Raises SceneError for numbers that
        are not finite, an emitter that does not move its particles, or a fluid that does not exist.
        """
        with self._errors_of(f"emitter {len(self.emitters)}"):
            if isinstance(fluid, bool) or not isinstance(fluid, int | np.integer) or not 0 <= fluid < len(self.fluids):
                raise ValueError(f"fluid {fluid!r} does not exist ({len(self.fluids)} fluids)")
            middle, v = as_vector(center), as_vector(velocity)
            speed = float(np.linalg.norm(v))
            if not speed > 0.0:
                raise ValueError("velocity must not be 0")
            if not (isfinite(radius) and radius > 0.0):
                raise ValueError(f"radius must be positive, got {radius!r}")
            if isnan(stop) or not 0.0 <= start <= stop or not isfinite(start):
                raise ValueError(f"must start at 0 or later and before it stops, got {start!r} to {stop!r}")
            if most is not None and most < 1:
                raise ValueError(f"most must be at least 1, got {most!r}")
            points = middle + _disc(v / speed, float(radius), 2.0 * self.particle_radius)
        end, number = float(min(stop, UNLIMITED)), min(most or MOST, MOST)
        self.emitters.append(EmitterRecord(int(fluid), points, v, float(start), end, number))
        return len(self.emitters) - 1

    def add_outflow(self, lower: Any, upper: Any) -> None:
        """A box (world, m) that removes the particles that enter it. Raises SceneError for one without volume."""
        with self._errors_of(f"outflow {len(self.outflows)}"):
            low, high = as_vector(lower), as_vector(upper)
            if not (high > low).all():
                raise ValueError(f"has no volume: {low.tolist()} to {high.tolist()}")
        self.outflows.append((low, high))


def _disc(along: Floats, radius: float, spacing: float) -> Floats:
    """(n, 3) places of a square lattice across `along` that have room within a radius of 0; at least the middle."""
    side = np.cross(along, np.eye(3)[int(np.argmin(np.abs(along)))])
    side /= np.linalg.norm(side)
    up = np.cross(along, side)
    room = max(radius - 0.5 * spacing, 0.0)
    n = int(room / spacing + 1e-6)
    if (2 * n + 1) ** 2 > MOST_OF_LAYER:
        raise ValueError(f"a layer would hold more than {MOST_OF_LAYER} particles")
    steps = spacing * np.arange(-n, n + 1)
    a, b = (x.ravel() for x in np.meshgrid(steps, steps, indexing="ij"))
    inside = a**2 + b**2 <= room**2 * (1.0 + 1e-6) + 1e-12
    return np.asarray(a[inside, None] * side + b[inside, None] * up)


def emitter_fields(builder: EmitterMethods) -> dict[str, Any]:
    """The Model's fields about emitters and outflows."""
    emitters, outflows = builder.emitters, builder.outflows
    counts = np.array([len(e.points) for e in emitters], np.int64)
    return {
        "emitter_fluid": np.array([e.fluid for e in emitters], np.int64),
        "emitter_velocity": np.array([e.velocity for e in emitters]).reshape(-1, 3),
        "emitter_start": np.array([e.start for e in emitters]),
        "emitter_stop": np.array([e.stop for e in emitters]),
        "emitter_most": np.array([e.most for e in emitters], np.int64),
        "emitter_point_start": np.cumsum(counts) - counts,
        "emitter_point_count": counts,
        "emitter_point": np.vstack([np.zeros((0, 3)), *(e.points for e in emitters)]),
        "outflow_lower": np.array([low for low, _ in outflows]).reshape(-1, 3),
        "outflow_upper": np.array([high for _, high in outflows]).reshape(-1, 3),
    }
