"""The contacts of the last step as the user sees them: flat arrays, made from the manifolds when they are asked for."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.state.tables import Contacts


class ContactArray(np.ndarray):
    """A NumPy array that also answers `.numpy()`, as the fields of the state do."""

    def numpy(self) -> np.ndarray:
        return self.view(np.ndarray)


class ContactView:
    """Contact points in the order of pairs. World frame, SI units; copies of the moment they are first read.

    count: number of points. shape0, shape1 (count,) int32, shape0 < shape1; point (count, 3) midway between the
    surfaces; normal (count, 3) from shape 0 to shape 1; depth (count,) > 0 where the shapes overlap; impulse (count, 3)
    on shape 1 over the last step: along normal, `tangent` and normal × `tangent`. Friction acts
    on the manifold as a whole; it is shared out to its points by their normal impulses.
    """

    def __init__(self, contacts: Contacts, pairs: np.ndarray):
        """pairs: the manifolds to show, as indices of pairs."""
        self._contacts = contacts
        counts = contacts.manifold_count.numpy()[pairs]
        self._pair = np.repeat(np.asarray(pairs, np.int64), counts)
        first = np.repeat(np.cumsum(counts) - counts, counts)
        self._element = 4 * self._pair + np.arange(len(self._pair)) - first
        self.count = len(self._pair)

    def __len__(self) -> int:
        return self.count

    @property
    def shape0(self) -> ContactArray:
        return _array(self._contacts.pair_shape0.numpy()[self._pair])

    @property
    def shape1(self) -> ContactArray:
        return _array(self._contacts.pair_shape1.numpy()[self._pair])

    @property
    def point(self) -> ContactArray:
        return _array(self._contacts.point_position.numpy()[self._element])

    @property
    def normal(self) -> ContactArray:
        return _array(self._contacts.manifold_normal.numpy()[self._pair])

    @property
    def tangent(self) -> ContactArray:
        """(count, 3) the first tangent."""
        return _array(tangents_of(self._contacts.manifold_normal.numpy()[self._pair]))

    @property
    def depth(self) -> ContactArray:
        return _array(-self._contacts.point_separation.numpy()[self._element])

    @property
    def impulse(self) -> ContactArray:
        normal = self._contacts.point_total_impulse.numpy()[self._element]
        load = np.zeros(len(self._contacts.pair_shape0), normal.dtype)
        np.add.at(load, self._pair, normal)
        share = np.divide(normal, load[self._pair], out=np.zeros_like(normal), where=load[self._pair] > 0)
        friction = self._contacts.manifold_total_friction.numpy()[self._pair] * share[:, None]
        n, t = np.asarray(self.normal), np.asarray(self.tangent)
        u = np.cross(n, t)
        return _array(np.stack([normal, (friction * t).sum(axis=1), (friction * u).sum(axis=1)], axis=1))


def _array(values: np.ndarray) -> Any:
    return np.ascontiguousarray(values).view(ContactArray)


def tangents_of(normal: np.ndarray) -> np.ndarray:
    """(n, 3) unit vectors perpendicular to normals (n, 3), chosen as the solver does."""
    x, y, z = normal.T
    zero = np.zeros_like(x)
    small = np.abs(normal)
    least_x = (small[:, 0] <= small[:, 1]) & (small[:, 0] <= small[:, 2])
    least_y = ~least_x & (small[:, 1] <= small[:, 2])
    t = np.where(
        least_x[:, None],
        np.stack([zero, -z, y], axis=1),
        np.where(least_y[:, None], np.stack([z, zero, -x], axis=1), np.stack([-y, x, zero], axis=1)),
    )
    return t / np.linalg.norm(t, axis=1, keepdims=True)
