"""Pairs against brute force over the fat boxes: random scenes, filters, worlds, planes, growth, degenerate scenes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from engine.compiler import lang
from engine.config import config
from engine.geom.broad_phase import spread
from engine.geom.collision import Collision
from engine.geom.shapes import ShapeType
from engine.sim.builder import ModelBuilder


def pose(p, R=None):
    return tuple(p), tuple(R.as_quat()) if R is not None else (0.0, 0.0, 0.0, 1.0)


def add_random_shape(builder, body, rng, xform=None):
    size = 10 ** rng.uniform(-1, 0.3)
    kind = rng.integers(4)
    if kind == 0:
        builder.add_shape_sphere(body, xform, radius=size)
    elif kind == 1:
        builder.add_shape_box(body, xform, hx=size, hy=0.5 * size, hz=0.2 * size)
    elif kind == 2:
        builder.add_shape_capsule(body, xform, radius=0.3 * size, half_height=size)
    else:
        builder.add_shape_convex_hull(body, xform, points=rng.normal(size=(8, 3)) * size + [size, 0, 0])


def random_scene(rng, count, extent):
    builder = ModelBuilder()
    for i in range(count):
        at = pose(rng.uniform(-extent, extent, 3), Rotation.random(random_state=int(rng.integers(2**31))))
        if i % 7 == 0:
            add_random_shape(builder, -1, rng, at)
            continue
        body = builder.add_body(at, kinematic=i % 11 == 0)
        for _ in range(1 + (i % 3 == 0)):
            add_random_shape(builder, body, rng, pose(rng.normal(size=3) * 0.3))
    return builder


def found_pairs(contacts):
    n = int(contacts.pair_count.numpy()[0])
    return list(zip(contacts.pair_shape0.numpy()[:n].tolist(), contacts.pair_shape1.numpy()[:n].tolist(), strict=True))


def brute_force(model, contacts):
    """All pairs (i < j) whose fat boxes overlap and that the rules let collide, in order."""
    lower, upper = contacts.fat_lower.numpy(), contacts.fat_upper.numpy()
    body, world, flags = model.shape_body.numpy(), model.shape_world.numpy(), model.shape_flags.numpy()
    group, mask = model.shape_group.numpy(), model.shape_mask.numpy()
    kind, size = model.shape_type.numpy(), model.shape_scale.numpy()
    infinite = (kind == ShapeType.PLANE) & (size[:, 0] == 0)
    moves = [b >= 0 and model.body_inv_mass.numpy()[b] > 0 for b in body]
    filtered = {(int(key) >> 32, int(key) & 0xFFFFFFFF) for key in model.shape_filter_pair.numpy()}
    apart = set()
    joints = (model.joint_parent.numpy(), model.joint_child.numpy(), model.joint_collide.numpy())
    for p, c, both in zip(*joints, strict=True):
        if not both and p >= 0:
            apart.add((min(p, c), max(p, c)))
    pairs = []
    for i in range(model.nshape):
        for j in range(i + 1, model.nshape):
            if not (flags[i] & flags[j] & 1) or body[i] == body[j] or not (moves[i] or moves[j]):
                continue
            if not (group[i] & mask[j]) or not (group[j] & mask[i]) or (i, j) in filtered:
                continue
            if world[i] != world[j] and world[i] >= 0 and world[j] >= 0:
                continue
            if (min(body[i], body[j]), max(body[i], body[j])) in apart:
                continue
            if infinite[i] or infinite[j]:
                plane, other = (i, j) if infinite[i] else (j, i)
                z = Rotation.from_quat(model.shape_xform.numpy()[plane, 3:]).as_matrix()[:, 2]
                corner = np.where(z > 0, lower[other], upper[other])
                touch = z @ (corner - model.shape_xform.numpy()[plane, :3]) <= 0
            else:
                touch = (lower[i] <= upper[j]).all() and (lower[j] <= upper[i]).all()
            if touch:
                pairs.append((i, j))
    return pairs


def check(builder, device="cpu"):
    model = builder.finalize(device)
    contacts = model.contacts(1)
    Collision(model).collide(model.state(), contacts, 1 / 60)
    pairs = found_pairs(contacts)
    assert pairs == brute_force(model, contacts)
    return pairs


@pytest.mark.parametrize("count,extent", [(1, 1), (2, 1), (4, 1), (5, 2), (17, 3), (64, 4), (65, 6), (300, 8)])
def test_random_scenes(count, extent, rng, device):
    pairs = check(random_scene(rng, count, extent), device)
    assert pairs or count < 20


def test_scene_without_shapes(device):
    builder = ModelBuilder()
    builder.add_body(mass=1.0, inertia=(1, 1, 1))
    model = builder.finalize(device)
    contacts = model.contacts()
    Collision(model).collide(model.state(), contacts, 1 / 60)
    assert contacts.pair_count.numpy()[0] == 0


def test_only_static_shapes(rng):
    builder = ModelBuilder()
    for _ in range(10):
        add_random_shape(builder, -1, rng)
    assert check(builder) == []


def test_many_shapes_at_one_place(device):
    """All Morton codes are equal, and the pairs outgrow the first capacity many times over."""
    builder = ModelBuilder()
    for _ in range(100):
        builder.add_shape_sphere(builder.add_body(), radius=0.5)
    assert len(check(builder, device)) == 100 * 99 // 2


def test_planes_and_a_large_box(rng):
    builder = random_scene(rng, 80, 10)
    builder.add_ground_plane()
    builder.add_shape_plane(-1, pose((4, 0, 0), Rotation.from_euler("y", -70, degrees=True)))
    builder.add_shape_box(-1, pose((0, 0, -8)), hx=1000, hy=1000, hz=1)
    check(builder)


def test_groups_masks_flags_and_filters(rng):
    builder = ModelBuilder()
    for i in range(60):
        body = builder.add_body(pose(rng.uniform(-1, 1, 3)))
        group, mask = 1 << int(rng.integers(4)), int(rng.integers(16))
        builder.add_shape_sphere(body, radius=0.5, group=group, mask=mask, collide=i % 5 != 0)
    for _ in range(200):
        i, j = rng.choice(60, 2, replace=False)
        builder.add_shape_collision_filter_pair(int(i), int(j))
    assert 10 < len(check(builder)) < 1000


def test_bodies_of_a_joint_do_not_collide():
    builder = ModelBuilder()
    bodies = [builder.add_body(pose((0.5 * i, 0, 0))) for i in range(4)]
    for body in bodies:
        builder.add_shape_sphere(body, radius=0.6)
    for parent, child in zip(bodies, bodies[1:], strict=False):
        builder.add_joint_ball(parent, child)
    assert check(builder) == [(0, 2), (1, 3)]


def test_worlds_never_meet(rng):
    one = ModelBuilder()
    for _ in range(5):
        add_random_shape(one, one.add_body(pose(rng.normal(size=3))), rng)
    builder = ModelBuilder()
    builder.replicate(one, 20)
    builder.add_ground_plane()
    pairs = check(builder)
    assert pairs


def test_not_finite_positions_do_not_hang():
    builder = ModelBuilder()
    for i in range(20):
        builder.add_shape_sphere(builder.add_body(pose((0.9 * i, 0, 0))), radius=0.5)
    model = builder.finalize()
    state, contacts = model.state(), model.contacts()
    state.body_q.numpy()[3, :3] = np.nan
    state.body_q.numpy()[7, 0] = np.inf
    Collision(model).collide(state, contacts, 1 / 60)
    pairs = found_pairs(contacts)
    assert {(i, i + 1) for i in range(8, 19)} <= set(pairs)


def test_pairs_are_made_anew_only_when_a_fat_box_is_left():
    builder = ModelBuilder()
    for i in range(30):
        builder.add_shape_box(builder.add_body(pose((1.2 * i, 0, 0))))
    model = builder.finalize()
    state, contacts, collision = model.state(), model.contacts(), Collision(model)
    for _ in range(3):
        collision.collide(state, contacts, 1 / 60)
    assert collision.pairs_made == 1
    state.body_q.numpy()[5, 1] += 0.01
    collision.collide(state, contacts, 1 / 60)
    assert collision.pairs_made == 1
    state.body_q.numpy()[5, 1] += 0.5
    collision.collide(state, contacts, 1 / 60)
    assert collision.pairs_made == 2
    assert found_pairs(contacts) == brute_force(model, contacts)


def test_moving_scene_stays_complete(rng):
    """After every pass each pair of shapes whose own bounds overlap is among the pairs."""
    model = random_scene(rng, 100, 6).finalize()
    state, contacts, collision = model.state(), model.contacts(), Collision(model)
    for _ in range(20):
        state.body_q.numpy()[:, :3] += rng.normal(size=(model.nbody, 3)) * 0.02
        collision.collide(state, contacts, 1 / 60)
        pairs = set(found_pairs(contacts))
        assert pairs == set(brute_force(model, contacts))
        lower, upper = collision.lower.numpy(), collision.upper.numpy()
        assert (lower >= contacts.fat_lower.numpy()).all() and (upper <= contacts.fat_upper.numpy()).all()
    assert 1 < collision.pairs_made <= 20


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_same_bits_with_any_number_of_threads(threads, rng):
    model = random_scene(rng, 400, 6).finalize()
    hashes = []
    for count in (1, threads):
        state, contacts, collision = model.state(), model.contacts(), Collision(model)
        with config.scope(threads=count):
            for step in range(3):
                state.body_q.numpy()[:, 0] += 0.02 * step
                collision.collide(state, contacts, 1 / 60)
        hashes.append(contacts.hash())
    assert hashes[0] == hashes[1]


BALL = st.tuples(*[st.floats(-3, 3, width=32)] * 3, st.floats(0.0625, 1.5, width=32))


@settings(max_examples=30, deadline=None)
@given(st.lists(BALL, min_size=1, max_size=40))
def test_any_spheres(balls):
    builder = ModelBuilder()
    for x, y, z, r in balls:
        builder.add_shape_sphere(builder.add_body(pose((x, y, z))), radius=r)
    check(builder)


def test_spread_puts_bits_three_apart():
    for x in (0, 1, 0x8000, 0xFFFF, 0xABCD):
        assert int(spread(lang.uint64(x))) == sum(((x >> i) & 1) << (3 * i) for i in range(16))


def test_one_body_far_away_does_not_spoil_the_tree(rng):
    builder = random_scene(rng, 200, 8)
    builder.add_shape_sphere(builder.add_body(pose((0, 0, -1e5))), radius=0.5)
    check(builder)
