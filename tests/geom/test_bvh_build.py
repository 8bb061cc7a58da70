"""Hierarchies by both builders: whole, bounded, of the least area that binary trees allow, the same everywhere."""

from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import engine
from engine.geom import bvh_split
from engine.geom.bvh_build import EMPTY, LEAF, LEAF_WORDS, MAX_DEPTH, NODE_WORDS, vec8
from tests.geom import mesh_oracle as oracle

BUILDERS = ("sah", "lbvh")


def parts(tree):
    """(children (n, 8), lower (n, 8, 3), upper, members (m, 4)) of a hierarchy, as NumPy arrays."""
    nodes = tree.nodes.numpy().reshape(-1, NODE_WORDS)
    leaves = tree.leaves.numpy().reshape(-1, LEAF_WORDS)
    lower, upper = (nodes[:, at : at + 24].reshape(-1, 3, 8).transpose(0, 2, 1) for at in (0, 24))
    members = np.ascontiguousarray(leaves[:, 9 * LEAF :]).view(np.int32)
    return np.ascontiguousarray(nodes[:, 48:56]).view(np.int32), lower, upper, members


def half_area(lower, upper):
    x, y, z = np.moveaxis(np.asarray(upper, np.float64) - lower, -1, 0)
    return x * y + y * z + z * x


def check(tree, low, high):
    """Every box in one leaf, every node but the root below one other, levels in a row, boxes around what they hold."""
    children, lower, upper, members = parts(tree)
    used = members[members >= 0]
    np.testing.assert_array_equal(np.sort(used), np.arange(len(low)))
    levels = tree.topology.levels
    assert levels[0] == 0 and levels[-1] == len(children) and len(levels) - 1 <= MAX_DEPTH
    parents = tree.topology.parents.numpy()
    inner = children >= 0
    assert len(children) == 1 + inner.sum() and parents[0] == -1
    node, place = np.nonzero(inner)
    np.testing.assert_array_equal(parents[children[inner]], 8 * node + place)
    level = np.searchsorted(levels, np.arange(len(children)), side="right")
    np.testing.assert_array_equal(level[children[inner]], level[node] + 1)
    leaf = (children < 0) & (children != EMPTY)
    number, count = ~children[leaf] // LEAF, (~children[leaf] & (LEAF - 1)) + 1
    np.testing.assert_array_equal(np.sort(number), np.arange(len(members)))
    np.testing.assert_array_equal((members[number] >= 0).sum(1), count)
    held = np.where(members[..., None] >= 0, low[members], np.inf).min(1)
    np.testing.assert_array_equal(lower[leaf], held[number])
    np.testing.assert_array_equal(upper[inner], upper.max(1)[children[inner]])


def boxes_of(low, high, constructor, device=None):
    low, high = (engine.array(x, dtype=engine.vec3, device=device) for x in (low, high))
    return engine.Bvh(low, high, constructor=constructor)


def random_boxes(seed, n, kind):
    rng = np.random.default_rng(seed)
    at = rng.normal(size=(n, 3))
    if kind == "same":
        at[:] = at[0]
    elif kind == "line":
        at[:, 1:] = 0
    elif kind == "lattice":
        at = np.round(2 * at)
    elif kind == "shrinking":
        at = np.sign(at) * np.exp2(-rng.uniform(0, 120, (n, 1)))
    elif kind == "huge":
        at *= 1e37
    size = rng.exponential(size=(n, 3)) * np.abs(at).max() * rng.choice([0, 1e-3, 0.3])
    return at.astype(np.float32), (at + size).astype(np.float32)


@given(st.integers(0, 10**6), st.integers(1, 700), st.sampled_from(BUILDERS),
       st.sampled_from(["even", "same", "line", "lattice", "shrinking", "huge"]))  # fmt: skip
@example(0, 1500, "sah", "shrinking")
@example(0, 1500, "lbvh", "same")
@settings(max_examples=40, deadline=None)
def test_hierarchies_are_whole(seed, n, constructor, kind):
    low, high = random_boxes(seed, n, kind)
    check(boxes_of(low, high, constructor)._tree, low, high)


@pytest.mark.parametrize("constructor", BUILDERS)
def test_nodes_have_the_least_area_that_the_binary_tree_allows(constructor):
    """Of all ways to leave out nodes of it, so that none has more than 8 children."""
    low, high = random_boxes(3, 400, "even")
    rows = np.concatenate([low, np.zeros((400, 1)), -high, np.zeros((400, 1))], 1).astype(np.float32)
    rows[:, 3] = np.arange(400, dtype=np.int32).view(np.float32)
    records, spare = engine.array(rows, dtype=vec8), engine.empty(400, dtype=vec8)
    codes = engine.empty(0, dtype=engine.uint32)
    if constructor == "lbvh":
        codes = bvh_split.sort_by_code(records, 400, spare)
        records, spare = spare, records
    links, _choices = bvh_split.binary_tree(records, spare, 400, codes, bvh_split.SAH_DEPTH)
    links, rows = links.numpy(), records.numpy()

    def range_of(link):
        if link < 0:
            return ~link // LEAF, ~link // LEAF + (~link & (LEAF - 1)) + 1
        return range_of(links[2 * link])[0], range_of(links[2 * link + 1])[1]

    @cache
    def least(link, n):
        if link < 0:
            return 0.0
        sides = links[2 * link], links[2 * link + 1]
        opened = [least(sides[0], i) + least(sides[1], n - i) for i in range(1, n)]
        if n > 1:
            return min(least(link, n - 1), *opened) if n < 8 else min(opened)
        first, last = range_of(link)
        return half_area(rows[first:last, :3].min(0), -rows[first:last, 4:7].min(0)) + least(link, 8)

    _children, lower, upper, _members = parts(boxes_of(low, high, constructor)._tree)
    area = half_area(lower.min(1), upper.max(1)).sum()
    np.testing.assert_allclose(area, least(links[2 * 399], 1), rtol=1e-5)


def test_nodes_are_full():
    """As many children as a wide tree needs to be short: 6 of 8 on a smooth surface, not half."""
    v, f = oracle.sphere(5)
    for constructor in BUILDERS:
        children = parts(engine.Mesh(v, f, bvh_constructor=constructor)._tree)[0]
        assert (children != EMPTY).mean() >= 0.7


def test_deep_trees_are_halved(monkeypatch):
    """Where the heuristic would go deeper than the stacks of queries."""
    low, high = random_boxes(1, 300, "shrinking")
    assert len(boxes_of(low, high, "sah")._tree.topology.levels) - 1 > 8
    monkeypatch.setattr("engine.geom.bvh_build.MAX_DEPTH", 8)
    tree = boxes_of(low, high, "sah")._tree
    check(tree, low, high)
    assert len(tree.topology.levels) - 1 <= 8


@pytest.mark.parametrize("name", oracle.CLOSED)
def test_answers_do_not_depend_on_the_builder(name):
    """To the bit: of equal answers the lowest number is taken."""
    v, f = oracle.CLOSED[name]
    rng = np.random.default_rng(5)
    o, d = (rng.normal(size=(300, 3)).astype(np.float32) for _ in range(2))
    meshes = [engine.Mesh(v, f, bvh_constructor=constructor, support_winding_number=True) for constructor in BUILDERS]
    hits, near = zip(*((mesh.intersect(o, d), mesh.closest(o)) for mesh in meshes))
    for a, b in (hits, near):
        for field in vars(a):
            np.testing.assert_array_equal(getattr(a, field), getattr(b, field))
    np.testing.assert_array_equal(meshes[0].contains(o), meshes[1].contains(o))
    t = oracle.ray_hits(v, f, o, d).min(1)
    assert (np.isfinite(t) == (hits[1].face >= 0)).mean() >= 0.99


@pytest.mark.parametrize("constructor", BUILDERS)
def test_hierarchies_of_gpus_are_those_of_processors(constructor):
    """Whose subtrees begin elsewhere."""
    low, high = random_boxes(2, 900, "even")
    trees = [boxes_of(low, high, constructor, device)._tree for device in ("cpu", "emu")]
    for a, b in zip(*(parts(tree) for tree in trees)):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("constructor", BUILDERS)
def test_refits_give_the_bits_of_builds(constructor, device):
    """By the indices, which a build and a recorded refit read, and by the list that other refits make."""
    v, f = oracle.sphere(2)
    mesh = engine.Mesh(v, f, bvh_constructor=constructor, device=device)
    tree = mesh._tree
    made = [part.numpy().copy() for part in (tree.nodes, tree.slabs, tree.leaves, tree.bounds)]
    small = mesh.nbytes
    with engine.ScopedCapture(device) as capture:
        mesh.refit()
    graph = capture.graph

    def refit(how):
        mesh.points.assign(2 * v)
        how()
        mesh.points.assign(v)
        how()
        for part, before in zip((tree.nodes, tree.slabs, tree.leaves, tree.bounds), made):
            np.testing.assert_array_equal(part.numpy(), before)

    refit(lambda: engine.capture_launch(graph))
    assert mesh.nbytes == small
    refit(mesh.refit)
    assert mesh.nbytes == small + 12 * len(f)
    mesh.rebuild()
    assert mesh.nbytes == small
