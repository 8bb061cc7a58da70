"""Fixtures of the collision tests: shapes in, manifolds out."""

import numpy as np
import pytest

from engine.geom.collision import Collision
from tests.geom.collision_scenes import SPACING, build, read


@pytest.fixture
def collide(device):
    """collide(shapes, dt=0) → manifolds by pair of shape indices."""

    def run(shapes, dt=0.0):
        model = build(shapes, device)
        contacts = model.contacts(1)
        Collision(model).collide(model.state(), contacts, dt)
        return read(contacts)

    return run


@pytest.fixture
def collide_pairs(collide):
    """collide_pairs([(a, b), …]) → one Manifold or None per pair, in the pair's own coordinates; each pair alone."""

    def run(pairs):
        side = int(np.ceil(len(pairs) ** (1 / 3)))
        places = [
            SPACING * (np.array([i % side, i // side % side, i // side**2]) - side // 2) for i in range(len(pairs))
        ]
        shapes = [s.moved(p) for pair, p in zip(pairs, places, strict=True) for s in pair]
        found = collide(shapes)
        out = []
        for i, p in enumerate(places):
            m = found.pop((2 * i, 2 * i + 1), None)
            if m is not None:
                m.points = m.points - p
            out.append(m)
        assert not found
        return out

    return run
