"""Rigid poses on the host in float64: reading users' values, quaternions (xyzw), composition."""

from __future__ import annotations

from math import isfinite, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

IDENTITY = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
IDENTITY.flags.writeable = False  # it is handed out


def as_vector(value: Any, size: int = 3) -> Floats:
    """`value` (any sequence or kernel-language vector) as a finite float64 vector of `size`. Raises ValueError."""
    return np.array(_finite(value, size))


def as_quat(value: Any) -> Floats:
    """`value` as a unit quaternion xyzw; another length than 1 is normalised. Raises ValueError for 0 or NaN."""
    return np.array(_unit(_finite(value, 4)))


def as_pose(value: Any) -> Floats:
    """`value` as a pose (7,): xyz, unit quaternion xyzw.

    Takes None (identity), a transform value, a pair (position, quaternion) or 7 numbers. Raises ValueError.
    """
    if value is None:
        return IDENTITY
    if hasattr(value, "p") and hasattr(value, "q"):
        value = value.p, value.q
    if not hasattr(value, "__len__"):
        raise ValueError(f"expected a transform, (position, quaternion) or 7 numbers, got {value!r}")
    if len(value) == 2:
        return np.array(_finite(value[0], 3) + _unit(_finite(value[1], 4)))
    flat = _finite(value, 7)
    return np.array(flat[:3] + _unit(flat[3:]))


def _finite(value: Any, size: int) -> list[float]:
    """Python floats, because for so few numbers they are several times as fast as arrays."""
    try:
        numbers = [float(v) for v in (value.ravel() if isinstance(value, np.ndarray) else value)]
    except TypeError:
        raise ValueError(f"expected {size} numbers, got {value!r}") from None
    if len(numbers) != size:
        raise ValueError(f"expected {size} numbers, got {len(numbers)}")
    if not all(map(isfinite, numbers)):
        raise ValueError(f"not finite: {numbers}")
    return numbers


def _unit(q: list[float]) -> list[float]:
    length = sqrt(sum(c * c for c in q))
    if length < 1e-12:
        raise ValueError("zero quaternion")
    return q if length == 1.0 else [c / length for c in q]


def quat_multiply(a: Floats, b: Floats) -> Floats:
    """Rotation b, then a; (…, 4)."""
    av, aw, bv, bw = a[..., :3], a[..., 3:], b[..., :3], b[..., 3:]
    real = aw * bw - (av * bv).sum(axis=-1, keepdims=True)
    return np.concatenate([aw * bv + bw * av + np.cross(av, bv), real], axis=-1)


def quat_to_matrix(q: Floats) -> Floats:
    """Rotation matrices (…, 3, 3) of unit quaternions (…, 4): column i is where axis i goes."""
    x, y, z, w = np.moveaxis(q, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def quat_from_matrix(m: Floats) -> Floats:
    """Unit quaternion xyzw (w ≥ 0) of a rotation matrix, by the largest component (Shepperd 1978)."""
    d = np.diag(m)
    choices = np.array([1 + 2 * d[0] - d.sum(), 1 + 2 * d[1] - d.sum(), 1 + 2 * d[2] - d.sum(), 1 + d.sum()])
    i = int(np.argmax(choices))
    q = np.empty(4)
    if i == 3:
        q[:] = m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1], choices[3]
    else:
        j, k = (i + 1) % 3, (i + 2) % 3
        q[i], q[j], q[k], q[3] = choices[i], m[j, i] + m[i, j], m[k, i] + m[i, k], m[k, j] - m[j, k]
    q /= np.linalg.norm(q)
    return -q if q[3] < 0 else q


def quat_between(a: Any, b: Any) -> Floats:
    """The shortest rotation that takes direction a to direction b."""
    u, v = np.asarray(a, float), np.asarray(b, float)
    u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
    if u @ v < -1 + 1e-12:  # opposite: half a turn about any perpendicular axis
        axis = np.cross(u, np.eye(3)[int(np.argmin(np.abs(u)))])
        return np.append(axis / np.linalg.norm(axis), 0.0)
    q = np.append(np.cross(u, v), 1 + u @ v)
    return q / np.linalg.norm(q)


def pose_multiply(a: Floats, b: Floats) -> Floats:
    """Pose of a frame given as b in frame a, seen from where a is given; (…, 7)."""
    return np.concatenate([pose_point(a, b[..., :3]), quat_multiply(a[..., 3:], b[..., 3:])], axis=-1)


def quat_rotate(q: Floats, v: Floats) -> Floats:
    """Vectors (…, 3) turned by unit quaternions (…, 4)."""
    u, w = q[..., :3], q[..., 3:]
    t = 2.0 * np.cross(u, v)
    return v + w * t + np.cross(u, t)


def pose_point(a: Floats, x: Floats) -> Floats:
    """Points x (…, 3) of frames a (…, 7), seen from where a is given."""
    return a[..., :3] + quat_rotate(a[..., 3:], x)


def quat_inverse(q: Floats) -> Floats:
    """The opposite rotation of a unit quaternion (…, 4)."""
    return q * np.array([-1.0, -1.0, -1.0, 1.0])


def pose_inverse(a: Floats) -> Floats:
    """The pose that undoes a; (…, 7)."""
    q = quat_inverse(a[..., 3:])
    return np.concatenate([-quat_rotate(q, a[..., :3]), q], axis=-1)


AXES = dict(zip("xyz", np.eye(3), strict=True))


def as_axis(value: Any) -> Floats:
    """A unit direction from "x", "-y", an axis number 0 … 2 or 3 numbers. Raises ValueError."""
    if isinstance(value, str):
        name = value.lower()
        if name.lstrip("+-") not in AXES:
            raise ValueError(f'axis must be "x", "y", "z" or 3 numbers, got {value!r}')
        return -AXES[name[1:]] if name.startswith("-") else AXES[name.lstrip("+")]
    if isinstance(value, int | np.integer):
        if not 0 <= int(value) <= 2:
            raise ValueError(f"axis number must be 0, 1 or 2, got {value}")
        return AXES["xyz"[int(value)]]
    v = as_vector(value)
    length = float(np.linalg.norm(v))
    if length < 1e-12:
        raise ValueError("zero axis")
    return v / length
