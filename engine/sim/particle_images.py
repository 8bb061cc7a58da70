"""Images of particles and of points of solids on the other side of periodic faces.

What is nearer to a periodic face than the support radius has an image a period away, beyond the opposite face. Sweeps
over neighbours then need not know of periods: an image is a place like any other, whose row in each array holds what
the row of its source holds. `refresh` copies an array's rows, after they were written and before neighbours are read.
"""

# mypy: disable-error-code="call-arg"
# (structs have no constructor that mypy sees)

from __future__ import annotations

from typing import Any

import numpy as np

from engine.compiler import lang as k
from engine.context import empty, launch, zeros
from engine.kernels.scan import Scan
from engine.sim.particle_cells import cell_or_none
from engine.state.model import Model


@k.func
def wrapped(x: k.vec3, lower: k.vec3, period: k.vec3) -> k.vec3:
    """The image of a place that lies between the periodic faces; a period of 0 leaves an axis as it is."""
    y = x
    for a in range(3):
        if period[a] > 0.0:
            y[a] = x[a] - period[a] * k.floor((x[a] - lower[a]) / period[a])
            if y[a] < lower[a] or y[a] >= lower[a] + period[a]:  # rounded onto the face
                y[a] = lower[a]
    return y


@k.func
def has_image(x: float, lower: float, period: float, support: float, way: int) -> bool:
    """Whether a coordinate between periodic faces has an image `way` (−1, 0, 1) periods away."""
    if way == 0:
        return True
    low = x - lower < support
    high = lower + period - x < support
    return period > 0.0 and ((way == 1 and low) or (way == -1 and high))


@k.requires(lambda tid, x, count: tid < x.shape[0] and tid < count.shape[0])
@k.kernel
def count_images(
    x: k.array(dtype=k.vec3), lower: k.vec3, period: k.vec3, support: float, count: k.array(dtype=int)
):
    i = k.tid()
    found = 0
    for a in range(-1, 2):
        for b in range(-1, 2):
            for c in range(-1, 2):
                at = x[i]
                there = has_image(at.x, lower.x, period.x, support, a)
                there = there and has_image(at.y, lower.y, period.y, support, b)
                there = there and has_image(at.z, lower.z, period.z, support, c)
                if there:
                    found += 1
    count[i] = found - 1  # the place itself


@k.kernel
def write_images(
    x: k.array(dtype=k.vec3),
    lower: k.vec3,
    period: k.vec3,
    support: float,
    starts: k.array(dtype=int),
    grid_lower: k.vec3,
    per_metre: float,
    dims: k.vec3i,
    image: k.array(dtype=k.vec3),
    origin: k.array(dtype=int),
    cells: k.array(dtype=k.uint32),
    order: k.array(dtype=int),
):
    """Places, sources and cells of the images of each place, from starts[i] on."""
    i = k.tid()
    at = x[i]
    next = starts[i]
    for a in range(-1, 2):
        for b in range(-1, 2):
            for c in range(-1, 2):
                there = has_image(at.x, lower.x, period.x, support, a)
                there = there and has_image(at.y, lower.y, period.y, support, b)
                there = there and has_image(at.z, lower.z, period.z, support, c)
                if there and (a != 0 or b != 0 or c != 0):
                    way = k.vec3(float(a) * period.x, float(b) * period.y, float(c) * period.z)
                    image[next] = at + way
                    origin[next] = i
                    cells[next] = k.uint32(cell_or_none(at + way, grid_lower, per_metre, dims))
                    order[next] = next
                    next += 1


@k.kernel
def refresh_rows(rows: k.array(dtype=Any, layout="rows"), first: int, source: k.array(dtype=int)):
    i = k.tid()
    rows[first + i] = rows[source[i]]


@k.kernel
def refresh_numbers(numbers: k.array(dtype=Any), first: int, source: k.array(dtype=int)):
    i = k.tid()
    numbers[first + i] = numbers[source[i]]


class Images:
    """The images of one set of places, in the order of their cells once they are `sorted`."""

    def __init__(self, model: Model, support: float, capacity: int):
        self.lower, self.period = (
            k.vec3(*(float(x) for x in field.numpy()[0])) for field in (model.domain_lower, model.domain_period)
        )
        self.support, self.device = support, model.device
        self.n = 0  # images
        self._reserve_places(capacity)
        self._reserve_images(capacity)

    def _reserve_places(self, capacity: int) -> None:
        self._counts = zeros(capacity + 1, dtype=int, device=self.device)
        self._scan = Scan(capacity, self.device)

    def _reserve_images(self, capacity: int) -> None:
        self.image = empty(capacity, dtype=k.vec3, device=self.device)
        self.origin, self.order = (empty(capacity, dtype=int, device=self.device) for _ in range(2))
        self.cells = empty(capacity, dtype=k.uint32, device=self.device)

    def find(self, x: Any, n: int, grid: tuple[Any, float, Any]) -> None:
        """Of x[:n], which lie between the periodic faces: `image`, `origin`, and `cells` and `order` to be sorted."""
        if n + 1 > len(self._counts):
            self._reserve_places(2 * n)
        launch(count_images, n, inputs=[x, self.lower, self.period, self.support, self._counts], device=self.device)
        self._scan.run(self._counts, self._counts, n)
        self.n = int(self._counts[n : n + 1].numpy()[0]) if n else 0
        if self.n > len(self.order):
            self._reserve_images(2 * self.n)
        found = [self.image, self.origin, self.cells, self.order]
        inputs = [x, self.lower, self.period, self.support, self._counts, *grid, *found]
        launch(write_images, n, inputs=inputs, device=self.device)


def is_periodic(model: Model) -> bool:
    """Whether any axis of the domain wraps."""
    return bool(np.any(model.domain_period.numpy() > 0.0))
