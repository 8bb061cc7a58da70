"""Scenes of shapes, and their manifolds as plain records."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from engine.sim.builder import ModelBuilder

SPACING = 16.0  # between pairs that must not meet, m


@dataclass
class Shape:
    """kind: the end of an add_shape_* name. size: its arguments. R: (3, 3) axes as columns. One body each."""

    kind: str
    size: dict
    p: np.ndarray
    R: np.ndarray
    v: tuple = (0.0, 0.0, 0.0)
    w: tuple = (0.0, 0.0, 0.0)

    def moved(self, p=(0, 0, 0), R=None) -> "Shape":
        R = np.eye(3) if R is None else R
        return Shape(self.kind, self.size, R @ self.p + np.asarray(p, float), R @ self.R, self.v, self.w)


def shape(kind, p=(0, 0, 0), R=None, v=(0, 0, 0), w=(0, 0, 0), **size) -> Shape:
    R = np.eye(3) if R is None else R
    R = Rotation.from_euler("xyz", R, degrees=True).as_matrix() if np.ndim(R) == 1 else R
    return Shape(kind, size, np.asarray(p, float), R, v, w)


@dataclass
class Manifold:
    shape0: int
    shape1: int
    normal: np.ndarray  # (3,) from shape 0 to shape 1
    points: np.ndarray  # (n, 3)
    separation: np.ndarray  # (n,)
    feature: np.ndarray  # (n,)


def build(shapes, device="cpu"):
    builder = ModelBuilder()
    for s in shapes:
        pose = (tuple(s.p), tuple(Rotation.from_matrix(s.R).as_quat()))
        if s.kind == "plane":
            builder.add_shape_plane(-1, pose, **s.size)
            continue
        body = builder.add_body(pose, linear_velocity=s.v, angular_velocity=s.w)
        getattr(builder, f"add_shape_{s.kind}")(body, **s.size)
    return builder.finalize(device)


def read(contacts) -> dict[tuple[int, int], Manifold]:
    """Manifolds with points, by their two shapes."""
    found = {}
    position, separation = contacts.point_position.numpy(), contacts.point_separation.numpy()
    for pair in range(int(contacts.pair_count.numpy()[0])):
        n = int(contacts.manifold_count.numpy()[pair])
        if n == 0:
            continue
        i, j = int(contacts.pair_shape0.numpy()[pair]), int(contacts.pair_shape1.numpy()[pair])
        at = slice(4 * pair, 4 * pair + n)
        normal = contacts.manifold_normal.numpy()[pair].astype(float)
        feature = contacts.point_feature.numpy()[at].copy()
        found[i, j] = Manifold(i, j, normal, position[at].astype(float), separation[at].astype(float), feature)
    return found
