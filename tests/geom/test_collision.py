"""What contacts keep from pass to pass: impulses by feature and place, through new pairs, and none after parting."""

import numpy as np
import pytest

from engine.geom.collision import Collision
from engine.sim.builder import ModelBuilder
from tests.geom.collision_scenes import build, shape


class Scene:
    def __init__(self, shapes):
        self.model = build(shapes)
        self.state, self.contacts = self.model.state(), self.model.contacts()
        self.collision = Collision(self.model)
        self.collide()

    def collide(self):
        self.collision.collide(self.state, self.contacts, 1 / 60)

    def move(self, body, *d):
        self.state.body_q.numpy()[body, :3] += d
        self.collide()

    def points(self, pair=0):
        n = int(self.contacts.manifold_count.numpy()[pair])
        at = slice(4 * pair, 4 * pair + n)
        c = self.contacts
        return [f.numpy()[at].copy() for f in (c.point_position, c.point_impulse, c.point_feature)]


def load(scene, pair=0):
    """Impulses as a solver would leave them: another one on each point."""
    scene.contacts.point_impulse.numpy()[4 * pair : 4 * pair + 4] = [1, 2, 3, 4]
    scene.contacts.manifold_friction.numpy()[pair] = [0.1, 0.2, 0.3]
    scene.contacts.manifold_twist.numpy()[pair] = 0.5


def cubes(gap=-0.001):
    return [shape("box", hx=0.5, hy=0.5, hz=0.5), shape("box", (0, 0, 1 + gap), hx=0.5, hy=0.5, hz=0.5)]


def test_impulses_follow_features():
    scene = Scene(cubes())
    load(scene)
    before, _, features = scene.points()
    scene.move(1, 0.0015, -0.001, 0.0005)
    after, impulses, features2 = scene.points()
    assert list(impulses) == [1, 2, 3, 4]
    assert list(features) == list(features2)
    assert np.abs(after - before).max() < 0.01
    assert scene.contacts.manifold_friction.numpy()[0] == pytest.approx([0.1, 0.2, 0.3])
    assert scene.contacts.manifold_twist.numpy()[0] == 0.5


def test_impulses_follow_places_when_features_change():
    """A box that slides over the edge of another: corner points become crossing points at nearly the same place."""
    scene = Scene(cubes())
    scene.move(1, 0.001, 0, 0)
    load(scene)
    before, _, features = scene.points()
    scene.move(1, 0.008, 0.0, 0.0)
    after, impulses, features2 = scene.points()
    assert set(features) != set(features2)
    for x, impulse in zip(after, impulses, strict=True):
        nearest = np.argmin(np.linalg.norm(before - x, axis=1))
        assert impulse == [1, 2, 3, 4][nearest]


def test_parting_forgets():
    scene = Scene(cubes())
    load(scene)
    scene.move(1, 0, 0, 0.03)
    assert scene.contacts.manifold_count.numpy()[0] == 0
    assert not scene.contacts.manifold_friction.numpy()[0].any()
    scene.move(1, 0, 0, -0.03)
    assert scene.contacts.manifold_count.numpy()[0] == 4
    assert not scene.points()[1].any()
    assert scene.contacts.manifold_twist.numpy()[0] == 0


def test_new_pairs_keep_the_memory_of_the_old():
    """A third box comes in: the pairs shift, and the capacity grows, but the first pair's impulses stay."""
    shapes = [*cubes(), *(shape("box", (10 + 3 * i, 0, 0), hx=0.5, hy=0.5, hz=0.5) for i in range(6))]
    model = build(shapes)
    state, contacts, collision = model.state(), model.contacts(1), Collision(model)
    collision.collide(state, contacts, 1 / 60)
    assert (contacts.count["npair"], contacts.pair_count.numpy()[0]) == (1, 1)
    contacts.point_impulse.numpy()[:4] = [1, 2, 3, 4]
    contacts.manifold_twist.numpy()[0] = 0.5
    state.body_q.numpy()[2:, :3] = [[-0.98, 0.1 * i, 0.0] for i in range(6)]
    collision.collide(state, contacts, 1 / 60)
    count = int(contacts.pair_count.numpy()[0])
    assert count > 6 and contacts.count["npair"] >= count
    pairs = list(zip(contacts.pair_shape0.numpy(), contacts.pair_shape1.numpy(), strict=True))
    first = pairs.index((0, 1))
    assert list(contacts.point_impulse.numpy()[4 * first : 4 * first + 4]) == [1, 2, 3, 4]
    assert contacts.manifold_twist.numpy()[first] == 0.5
    others = np.delete(contacts.point_impulse.numpy()[: 4 * count].reshape(-1, 4), first, axis=0)
    assert not others[contacts.manifold_count.numpy()[: count - 1] > 0].any()


def test_a_second_collision_continues_from_the_fields():
    """Contacts and State are all there is: another Collision makes the same bits of them."""
    shapes = [shape("box", (0, 0, 0.99 * i), (0, 0, 10 * i), hx=0.5, hy=0.5, hz=0.5) for i in range(8)]
    model = build([shape("plane", (0, 0, -0.5)), *shapes])
    hashes = []
    for renew in (False, True):
        state, contacts, collision = model.state(), model.contacts(), Collision(model)
        for step in range(4):
            state.body_q.numpy()[:, 0] += 0.001 * step
            if renew:
                collision = Collision(model)
            collision.collide(state, contacts, 1 / 60)
            contacts.point_impulse.numpy()[:] += 1
        hashes.append(contacts.hash())
    assert hashes[0] == hashes[1]


def test_several_shapes_on_one_body_and_offset_frames():
    builder = ModelBuilder()
    builder.add_ground_plane()
    body = builder.add_body(((1.0, 2.0, 3.0), (0, 0, np.sin(0.3), np.cos(0.3))))
    builder.add_shape_sphere(body, ((0, 0, -2.6), (0, 0, 0, 1)), radius=0.4)
    builder.add_shape_box(body, ((2, 0, -2.5), (0, 0, 0, 1)), hx=0.5, hy=0.5, hz=0.5)
    model = builder.finalize()
    contacts = model.contacts()
    Collision(model).collide(model.state(), contacts, 1 / 60)
    assert list(contacts.manifold_count.numpy()[:2]) == [1, 4]
    assert contacts.point_position.numpy()[0] == pytest.approx([1, 2, 0], abs=1e-5)
    centre = contacts.point_position.numpy()[4:8].mean(axis=0)
    assert centre == pytest.approx([1 + 2 * np.cos(0.6), 2 + 2 * np.sin(0.6), 0], abs=1e-5)


def test_motion_over_the_frame_counts_for_bounds():
    """A fast small ball and a wall that it reaches only within this frame."""
    ball = shape("sphere", (0, 0, 0), v=(40, 0, 0), radius=0.05)
    wall = shape("box", (0.6, 0, 0), hx=0.05, hy=1, hz=1)
    model = build([wall, ball])
    contacts = model.contacts()
    Collision(model).collide(model.state(), contacts, 1 / 60)
    assert contacts.manifold_count.numpy()[0] == 1
    assert contacts.point_separation.numpy()[0] == pytest.approx(0.5, abs=1e-5)
    assert contacts.manifold_normal.numpy()[0] == pytest.approx([-1, 0, 0], abs=1e-6)


@pytest.mark.parametrize("shapes", [[shape("plane")], [shape("plane"), shape("sphere", (0, 0, 0.5), radius=0.5)]])
def test_contacts_without_any_capacity(shapes):
    model = build(shapes)
    contacts = model.contacts(0)
    Collision(model).collide(model.state(), contacts, 1 / 60)
    assert contacts.pair_count.numpy()[0] == len(shapes) - 1
    assert contacts.manifold_count.numpy().sum() == len(shapes) - 1
