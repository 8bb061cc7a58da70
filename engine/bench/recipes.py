"""The benchmark scenes as plain data, so that this engine and others build the same one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from engine.bench.measure import Result

GRAVITY = 9.81  # m/s², down z
DT = 1.0 / 60.0  # s
SUBSTEPS = 4


@dataclass(frozen=True)
class BallJoint:
    """`child` hangs on `parent` (−1: the world) at a point given in each one's frame (m)."""

    parent: int
    child: int
    parent_anchor: tuple[float, float, float]
    child_anchor: tuple[float, float, float]


@dataclass(frozen=True)
class Scene:
    """Equal bodies, boxes or spheres, with their start poses. SI units, z up, gravity −GRAVITY along z."""

    position: np.ndarray  # (n, 3) m
    rotation: np.ndarray  # (n, 4) quaternion xyzw
    box: tuple[float, float, float] | None = None  # half extents, m
    sphere: float | None = None  # radius, m
    density: float = 1000.0  # kg/m³
    mu: float = 0.5
    restitution: float = 0.0
    ground: bool = True  # a plane at z = 0
    collide: bool = True
    joints: list[BallJoint] = field(default_factory=list)


@dataclass(frozen=True)
class Recipe:
    """A benchmark: `scene(size)` builds it, the last `measured` of `steps` are timed, `check` judges what came out."""

    name: str
    doc: str
    scene: Callable[[int], Scene]
    size: int
    steps: int
    measured: int
    check: Callable[[Result], str]  # what is wrong, or ""
    small: int = 3  # the size that is run once before, so that compiling is not timed


def upright(count: int) -> np.ndarray:
    return np.tile([0.0, 0.0, 0.0, 1.0], (count, 1))


def pile(size: int) -> Scene:
    """size³ unit cubes in random orientation on a lattice of pitch 1.8 ± 0.05 m, which fall into a heap."""
    rng = np.random.default_rng(0)
    lattice = np.stack(np.meshgrid(*[np.arange(size)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    position = lattice * 1.8 + rng.uniform(-0.05, 0.05, lattice.shape) + [0.0, 0.0, 1.0]
    rotation = rng.normal(size=(len(lattice), 4))
    return Scene(position, rotation / np.linalg.norm(rotation, axis=1, keepdims=True), box=(0.5, 0.5, 0.5))


def flat_pyramid(base: int) -> np.ndarray:
    """(base·(base+1)/2, 3) centres of unit cubes: rows of base, base−1, …, 1 in the xz plane, touching exactly."""
    row, column = np.nonzero(np.tri(base)[::-1])
    return np.stack([column + 0.5 * row - 0.5 * (base - 1), np.zeros(len(row)), row + 0.5], axis=1)


def large_pyramid(base: int) -> Scene:
    position = flat_pyramid(base)
    return Scene(position, upright(len(position)), box=(0.5, 0.5, 0.5), density=100.0, mu=0.6)


def many_pyramids(count: int) -> Scene:
    """count × count flat pyramids of base 10, 11 m apart."""
    corner = np.stack(np.meshgrid(np.arange(count), np.arange(count), [0.0], indexing="ij"), axis=-1).reshape(-1, 1, 3)
    position = (corner * 11.0 + flat_pyramid(10)).reshape(-1, 3)
    return Scene(position, upright(len(position)), box=(0.5, 0.5, 0.5), density=100.0, mu=0.6)


def joint_grid(size: int) -> Scene:
    """A curtain of size × size spheres, 1 m apart, each on ball joints to its left and upper neighbour; row 0 is fixed.

    Row 0 consists of points of the world, so that size·(size−1) spheres move.
    """
    row, column = (index.ravel() for index in np.mgrid[1:size, 0:size])
    position = np.stack([column, np.zeros(len(row)), -row], axis=1).astype(float)
    joints = []
    for body, (r, c) in enumerate(zip(row.tolist(), column.tolist())):
        if r == 1:
            joints.append(BallJoint(-1, body, (c, 0.0, -0.5), (0.0, 0.0, 0.5)))
        else:
            joints.append(BallJoint(body - size, body, (0.0, 0.0, -0.5), (0.0, 0.0, 0.5)))
        if c > 0:
            joints.append(BallJoint(body - 1, body, (0.5, 0.0, 0.0), (-0.5, 0.0, 0.0)))
    return Scene(position, upright(len(row)), sphere=0.4, ground=False, collide=False, joints=joints)


def free_fall(size: int) -> Scene:
    """10·size² boxes in a lattice of pitch 2 m that fall without ever touching."""
    lattice = np.stack(np.meshgrid(np.arange(size), np.arange(size), np.arange(10), indexing="ij"), axis=-1)
    position = lattice.reshape(-1, 3) * 2.0
    return Scene(position, upright(len(position)), box=(0.5, 0.5, 0.5), ground=False)


def settled(result: Result) -> str:
    if not result.lowest_corner > -0.01:
        return f"lowest corner at {result.lowest_corner:.4f} m, must be above -0.01"
    return "" if result.mean_speed < 0.02 else f"mean speed {result.mean_speed:.4f} m/s, must be below 0.02"


def standing(result: Result) -> str:
    """Soft contacts let each layer sink by millimetres; a pyramid that falls loses far more than 1% of its height."""
    sunk = result.largest_drop / result.height
    return "" if sunk < 0.01 else f"a cube has sunk by {result.largest_drop:.3f} m: the pyramid has fallen"


def hanging(result: Result) -> str:
    return "" if result.joint_gap < 0.05 else f"a joint has opened by {result.joint_gap:.3f} m"


def fallen_freely(result: Result) -> str:
    """Symplectic Euler with n substeps in all falls g·h²·n(n+1)/2, h the length of a substep."""
    substeps = result.steps * SUBSTEPS
    exact = GRAVITY * (DT / SUBSTEPS) ** 2 * substeps * (substeps + 1) / 2
    error = abs(result.largest_drop - exact)
    return "" if error < 1e-3 * exact else f"fell {result.largest_drop:.4f} m instead of {exact:.4f}"


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("pile1000", "1000 cubes in a heap, settled", pile, 10, 600, 60, settled),
        Recipe("large_pyramid", "a pyramid of 5050 cubes", large_pyramid, 100, 200, 200, standing),
        Recipe("many_pyramids", "196 pyramids, 10 780 cubes", many_pyramids, 14, 100, 100, standing, small=1),
        Recipe("joint_grid", "a curtain of 9900 spheres on 19 701 ball joints", joint_grid, 100, 100, 100, hanging),
        Recipe("free_fall_100k", "100 000 boxes that never touch", free_fall, 100, 100, 100, fallen_freely),
    )
}
