"""Python-scope quaternions (x, y, z, w) and rigid transforms (translation, then quaternion)."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.compiler.types import Quat, Scalar, Transform
from engine.compiler.values.base import Value, component_array, make_class
from engine.compiler.values.linear import axis, vector_class


def hamilton(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Quaternion product a b (xyzw): as rotations, b first."""
    (ax, ay, az, aw), (bx, by, bz, bw) = a, b
    x = aw * bx + bw * ax + ay * bz - by * az
    y = aw * by + bw * ay + az * bx - bz * ax
    z = aw * bz + bw * az + ax * by - bx * ay
    return np.array([x, y, z, aw * bw - ax * bx - ay * by - az * bz], a.dtype)


def rotate(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """`v` turned by the unit quaternion `q`: v + 2 w (u x v) + 2 u x (u x v)."""
    u, w = q[:3], q[3]
    t = np.cross(u, v)
    t = t + t
    return (v + w * t + np.cross(u, t)).astype(v.dtype)


class QuatValue(Value):
    """Quaternion x, y, z, w. `quat()` is zero (not the identity), `quat(vec, w)` joins imaginary and real part."""

    __slots__ = ()
    x, y, z, w = (axis(i) for i in range(4))

    @classmethod
    def _components(cls, args: tuple[Any, ...]) -> np.ndarray:
        if len(args) == 1 and isinstance(args[0], int | float | np.number | np.bool_):
            return np.full(cls.size, component_array(args[0], cls.dtype, cls.__name__))
        if len(args) == 2:
            args = (np.concatenate([np.asarray(a).reshape(-1) for a in args]),)
        return super()._components(args)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, QuatValue):
            same = self._same(other)
            return NotImplemented if same is None else self._of(hamilton(self._c, same))
        return super().__mul__(other)


class TransformValue(Value):
    """Rigid transform: point x goes to p + q x q⁻¹. `transform()` is all zero; `transform(p, q)` or seven numbers."""

    __slots__ = ()

    def __init__(self, *args: Any, p: Any = None, q: Any = None):
        if p is not None or q is not None:
            given = dict(zip(("p", "q"), args, strict=False))
            args = (given.get("p", (0, 0, 0) if p is None else p), given.get("q", (0, 0, 0, 1) if q is None else q))
        super().__init__(*args)

    @classmethod
    def _components(cls, args: tuple[Any, ...]) -> np.ndarray:
        if len(args) == 1 and isinstance(args[0], int | float | np.number | np.bool_):
            return np.full(cls.size, component_array(args[0], cls.dtype, cls.__name__))
        if len(args) == 1 and not hasattr(args[0], "__len__"):
            raise TypeError(f"Invalid argument in transformation constructor: expected a scalar value, got "
                            f"{type(args[0]).__name__}")  # fmt: skip
        if len(args) == 1 and not isinstance(args[0], TransformValue) and len(args[0]) == 3:
            args = (args[0], (0, 0, 0, 1))
        if len(args) == 1 and not isinstance(args[0], Value) and len(args[0]) == 2:
            args = tuple(args[0])
        if len(args) == 2:
            for name, part in zip("pq", args, strict=True):
                if not hasattr(part, "__len__"):
                    raise TypeError(f"Invalid argument '{name}' in transformation constructor: expected a sequence, "
                                    f"got {type(part).__name__}")  # fmt: skip
        if len(args) == 2:
            p, q = (component_array(np.asarray(a), cls.dtype, cls.__name__).reshape(-1) for a in args)
            if (p.size, q.size) != (3, 4):
                raise ValueError(f"{cls.__name__}(p, q) takes 3 and 4 numbers, got {p.size} and {q.size}")
            return np.concatenate([p, q])
        return super()._components(args)

    @property
    def p(self) -> Any:
        """Translation."""
        return vector_class(self.dtype, 3)._of(self._c[:3].copy())

    @p.setter
    def p(self, item: Any) -> None:
        self._c[:3] = component_array(np.asarray(item), self.dtype, type(self).__name__)

    @property
    def q(self) -> Any:
        """Rotation, unit quaternion xyzw."""
        return quat_class(self.dtype)._of(self._c[3:].copy())

    @q.setter
    def q(self, item: Any) -> None:
        self._c[3:] = component_array(np.asarray(item), self.dtype, type(self).__name__)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, TransformValue):
            same = self._same(other)
            if same is None:
                return NotImplemented
            a, b = self._c, same
            return self._of(np.concatenate([a[:3] + rotate(a[3:], b[:3]), hamilton(a[3:], b[3:])]))
        return super().__mul__(other)

    def __repr__(self) -> str:
        p, q = (", ".join(map(str, part)) for part in (self._c[:3], self._c[3:]))
        return f"{type(self).__name__}(({p}), ({q}))"


def quat_class(dtype: Scalar) -> Any:
    """The class of quaternions of `dtype`."""
    t = Quat(dtype)
    return make_class(QuatValue, repr(t), t)


def transform_class(dtype: Scalar) -> Any:
    """The class of rigid transforms of `dtype`."""
    t = Transform(dtype)
    return make_class(TransformValue, repr(t), t)
