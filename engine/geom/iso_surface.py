"""What surfaces from fields have in common: the grid of nodes, its bounds, a field's check, the places of results."""

from __future__ import annotations

import abc
import warnings
from typing import Any

import numpy as np

from engine.compiler import lang as k
from engine.compiler import types
from engine.context import array, empty, launch
from engine.errors import ArgumentError
from engine.kernels.scan import scan

MOST = 2**31 - 1  # nodes, and corners of triangles


class IsoSurfaceBase(abc.ABC):
    """Extracts the surface where a field (nx, ny, nz) of float32 crosses a threshold: `surface`, `verts`, `indices`.

    lower, upper: where the first and the last node lie; by default nodes lie at their indices. `verts` is an array of
    vec3, `indices` of int32, flat; triangles are counter-clockwise seen from where the field is above the threshold.
    """

    def __init__(self, nx: int, ny: int, nz: int, lower: Any = None, upper: Any = None):
        self.verts: Any = None
        self.indices: Any = None
        self.lower, self.upper = lower, upper
        self.resize(nx, ny, nz)

    def resize(self, nx: int, ny: int, nz: int) -> None:
        """The next field will have this shape."""
        self.nx, self.ny, self.nz = int(nx), int(ny), int(nz)

    @property
    def domain_bounds_lower_corner(self) -> Any:
        """`lower` under Warp's older name."""
        deprecated(f"{type(self).__name__}.domain_bounds_lower_corner is", "lower")
        return self.lower

    @domain_bounds_lower_corner.setter
    def domain_bounds_lower_corner(self, lower: Any) -> None:
        deprecated(f"{type(self).__name__}.domain_bounds_lower_corner is", "lower")
        self.lower = lower

    @property
    def domain_bounds_upper_corner(self) -> Any:
        """`upper` under Warp's older name."""
        deprecated(f"{type(self).__name__}.domain_bounds_upper_corner is", "upper")
        return self.upper

    @domain_bounds_upper_corner.setter
    def domain_bounds_upper_corner(self, upper: Any) -> None:
        deprecated(f"{type(self).__name__}.domain_bounds_upper_corner is", "upper")
        self.upper = upper

    def surface(self, field: Any, threshold: float = 0.0) -> None:
        """Extracts the surface of `field` into `verts` and `indices`. Raises ArgumentError for unfit fields."""
        check_field(field)
        if field.shape != (self.nx, self.ny, self.nz):
            raise ArgumentError(f"the field has shape {field.shape}, the grid ({self.nx}, {self.ny}, {self.nz})")
        lower, step = bounds(field.shape, self.lower, self.upper)
        self.verts, self.indices = self._extract(field, float(threshold), lower, step)

    @abc.abstractmethod
    def _extract(self, field: Any, threshold: float, lower: Any, step: Any) -> tuple[Any, Any]:
        """(vertices, indices) of a checked field."""


def deprecated(what: str, instead: str, depth: int = 3) -> None:
    """Warns about an older name, at the line that used it: `depth` calls up."""
    warnings.warn(f"{what} deprecated. Use `{instead}` instead", DeprecationWarning, stacklevel=depth)


def check_field(field: Any) -> None:
    """Raises ArgumentError unless `field` is an array of float32 with at least 2 nodes along each of 3 axes."""
    if not isinstance(field, array) or field.ndim != 3 or types.of_annotation(field.dtype) != types.float32:
        raise ArgumentError("a field is a three-dimensional engine array of float32")
    if min(field.shape) < 2:
        raise ArgumentError(f"a field needs at least 2 nodes on each axis, this has shape {field.shape}")
    if field.size > MOST // 15:
        raise ArgumentError(f"a field of {field.size} nodes is too large: at most {MOST // 15}")


def bounds(shape: tuple[int, ...], lower: Any, upper: Any) -> tuple[Any, Any]:
    """(place of the first node, step from node to node). Raises ArgumentError."""
    last = np.array(shape) - 1.0
    low = np.zeros(3) if lower is None else np.asarray([float(x) for x in lower])
    high = last if upper is None else np.asarray([float(x) for x in upper])
    if low.shape != (3,) or high.shape != (3,) or not (np.isfinite(low) & np.isfinite(high)).all():
        raise ArgumentError(f"lower and upper are three finite numbers each, got {lower!r} and {upper!r}")
    return k.vec3(*low), k.vec3(*((high - low) / last))


def places(field: Any, count: Any, *inputs: Any) -> tuple[Any, Any, Any, Any]:
    """(first vertex and first corner of each node, vertices, indices), the last two with room for what `count` counts.

    `count` is a kernel over the nodes that takes `inputs`, and gives the numbers of vertices and corners of each.
    """
    device, n = field.device, field.size
    counts = [empty(n, dtype=int, device=device) for _ in range(2)]
    launch(count, field.shape, inputs=[*inputs, *counts], device=device, record_tape=False)
    firsts = [empty(n + 1, dtype=int, device=device) for _ in range(2)]
    for one, first in zip(counts, firsts, strict=True):
        scan(one, first)
    nvertex, ncorner = (int(first[n:].numpy()[0]) for first in firsts)
    vertices = empty(nvertex, dtype=k.vec3, device=device, requires_grad=field.requires_grad)
    indices = empty(ncorner, dtype=int, device=device)
    return firsts[0], firsts[1], vertices, indices


@k.func
def crossing(a: float, b: float, threshold: float) -> float:
    """Where on an edge the field crosses the threshold, 0 to 1; in the middle where that is no number."""
    t = (threshold - a) / (b - a)
    if not (t >= 0.0 and t <= 1.0):
        t = 0.5
    return t
