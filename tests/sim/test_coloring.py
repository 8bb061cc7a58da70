"""Colouring and ordering of constraints: no colour has a body twice, orders are stable, nothing depends on chance."""

import numpy as np
import pytest

from engine.compiler import lang as k
from engine.config import config
from engine.context import array
from engine.sim.coloring import COLORS, OVERFLOW, BucketOrder, Coloring


def colored(ends, nbody, device, threads=1, kept=-1):
    count = array([len(ends)], dtype=k.int32, device=device)
    coloring = Coloring(nbody, len(ends), count, device)
    coloring.body0.assign(ends[:, 0].astype(np.int32))
    coloring.body1.assign(ends[:, 1].astype(np.int32))
    coloring.color.assign(np.full(len(ends), kept, np.int32) if np.isscalar(kept) else kept)
    with config.scope(threads=threads):
        coloring.run()
    return np.array(coloring.color.numpy()), coloring


def assert_valid(color, ends):
    assert color.min() >= 0 and color.max() < COLORS
    for c in np.unique(color):
        if c != OVERFLOW:
            bodies = ends[color == c].ravel()
            bodies = bodies[bodies >= 0]
            assert len(np.unique(bodies)) == len(bodies), f"colour {c} has a body twice"


def test_random_graph_has_few_valid_colors(device, rng):
    ends = rng.integers(-1, 500, (1500, 2))
    ends = ends[ends[:, 0] != ends[:, 1]]
    color, coloring = colored(ends, 500, device)
    assert_valid(color, ends)
    degree = np.bincount(ends[ends >= 0]).max()
    assert color.max() < min(2 * degree, OVERFLOW)
    assert coloring.rounds < 30


def test_colors_do_not_depend_on_threads(device, rng):
    ends = rng.integers(0, 300, (20000, 2))
    ends = ends[ends[:, 0] != ends[:, 1]]
    first, _ = colored(ends, 300, device)
    for threads in (2, 4):
        again, _ = colored(ends, 300, device, threads)
        assert np.array_equal(first, again)


def test_old_colors_are_kept_and_new_constraints_fit_in(device, rng):
    ends = rng.integers(0, 400, (1200, 2))
    ends = ends[ends[:, 0] != ends[:, 1]]
    old, _ = colored(ends, 400, device)
    kept = np.where(rng.random(len(ends)) < 0.8, old, -1).astype(np.int32)
    color, coloring = colored(ends, 400, device, kept=kept)
    assert_valid(color, ends)
    assert np.array_equal(color[kept >= 0], old[kept >= 0])
    again, coloring = colored(ends, 400, device, kept=color)
    assert np.array_equal(again, color) and coloring.rounds == 0


def test_a_body_with_too_many_constraints_overflows(device):
    """100 constraints on one body: 31 get a colour of their own, the others the overflow colour."""
    ends = np.stack([np.zeros(100, int), np.arange(1, 101)], axis=1)
    color, _ = colored(ends, 101, device)
    assert_valid(color, ends)
    assert (color == OVERFLOW).sum() == 100 - OVERFLOW


def test_bodies_that_do_not_move_need_no_colors(device):
    color, _ = colored(np.stack([np.full(50, -1), np.arange(50)], axis=1), 50, device)
    assert (color == 0).all()


@pytest.mark.parametrize("n, capacity", [(0, 10), (1, 1), (700, 1000), (5000, 5000)])
def test_bucket_order_is_a_stable_counting_sort(n, capacity, device, rng):
    key = np.full(capacity, 3, np.int32)
    key[:n] = rng.integers(-1, 7, n)
    order = BucketOrder(array(key, dtype=k.int32, device=device), array([n], dtype=k.int32, device=device), capacity, 7,
                        device)  # fmt: skip
    order.run()
    kept = np.flatnonzero(key[:n] >= 0)
    expected = kept[np.argsort(key[kept], kind="stable")]
    assert order.total == len(kept)
    assert np.array_equal(order.order.numpy()[: order.total], expected)
    sizes = np.bincount(key[kept], minlength=7)
    assert np.array_equal(order.size.numpy()[:7], sizes)
    assert np.array_equal(order.start.numpy(), np.cumsum(sizes) - sizes)
    assert order.used == np.flatnonzero(sizes).tolist()
