"""Hash grid against brute force: coordinates of both signs, radii of any size, NaN points, wrapped cells, threads."""

import numpy as np
import pytest

import engine
from engine.compiler import lang as k
from engine.config import config
from engine.errors import ArgumentError
from engine.kernels.hash_grid import HashGrid, hash_grid_point_id, hash_grid_query, hash_grid_query_next


@k.kernel
def find(
    grid: k.uint64,
    points: k.array(dtype=k.vec3),
    radius: float,
    count: k.array(dtype=int),
    total: k.array(dtype=k.int64),
    visits: k.array(dtype=int),
):
    """Per point: how many are near, the sum of a hash of their numbers, and how many candidates there were."""
    i = hash_grid_point_id(grid, k.tid())
    p = points[i]
    query = hash_grid_query(grid, p, radius)
    j = 0
    near = 0
    seen = 0
    hashes = k.int64(0)
    while hash_grid_query_next(query, j):
        seen += 1
        if k.length(p - points[j]) <= radius:
            near += 1
            hashes += k.int64(j + 1) * k.int64(j + 7)
    count[i] = near
    total[i] = hashes
    visits[i] = seen


def found(points, dims, cell, radius, device):
    n = len(points)
    grid = HashGrid(*dims, device=device)
    on_device = engine.array(points, dtype=k.vec3, device=device)
    grid.build(on_device, cell)
    count = engine.full(n, -1, dtype=int, device=device)
    total = engine.full(n, -1, dtype=k.int64, device=device)
    visits = engine.full(n, -1, dtype=int, device=device)
    engine.launch(find, n, inputs=[grid.id, on_device, radius, count, total, visits], device=device)
    return grid, count.numpy(), total.numpy(), visits.numpy()


def expected(points, radius):
    gap = points[:, None] - points[None]
    length = np.sqrt((gap * gap).sum(axis=2))
    near = length <= np.float32(radius)
    j = np.arange(len(points), dtype=np.int64)
    return near.sum(axis=1), (near * ((j + 1) * (j + 7))).sum(axis=1)


# cells larger, as large and smaller than the radius; lattices smaller than the cloud, so that cells fold over
@pytest.mark.parametrize("dims", [(16, 16, 16), (2, 3, 5), (1, 1, 1), (64, 1, 8)])
@pytest.mark.parametrize("cell", [0.11, 0.3, 1.7])
def test_query_finds_what_brute_force_finds(dims, cell, device, rng):
    points = rng.uniform(-1.3, 1.1, (150, 3)).astype(np.float32)
    _, count, total, visits = found(points, dims, cell, 0.3, device)
    near, hashes = expected(points, 0.3)
    # one multiply-add may round a distance at the border otherwise: none of these is that close
    assert np.array_equal(count, near)
    assert np.array_equal(total, hashes)
    assert (visits <= len(points)).all()


def test_far_and_huge_coordinates(device):
    points = np.array([[3e5, -3e5, 1.0], [3e5, -3e5, 1.05], [1e30, 0, 0], [-1e30, 0, 0], [1e30, 0, 0]], np.float32)
    _, count, _, _ = found(points, (8, 8, 8), 0.1, 0.1, device)
    assert count.tolist() == [2, 2, 2, 1, 2]


def test_points_that_are_not_numbers_are_skipped_and_counted(device):
    points = np.zeros((6, 3), np.float32)
    points[1, 2] = points[4, 0] = np.nan
    grid, count, _, visits = found(points, (4, 4, 4), 1.0, 1.0, device)
    assert grid.skipped == 2
    assert count[[0, 2, 3, 5]].tolist() == [4] * 4
    assert visits[[1, 4]].tolist() == [0, 0]


def test_grid_grows_shrinks_and_empties(device, rng):
    grid = HashGrid(8, 8, 8, device=device)
    for n in (5, 200, 0, 40):
        points = rng.normal(0.0, 1.0, (n, 3)).astype(np.float32)
        on_device = engine.array(points, dtype=k.vec3, device=device)
        grid.build(on_device, 0.5)
        count = engine.full(n, -1, dtype=int, device=device)
        total, visits = engine.zeros(n, dtype=k.int64, device=device), engine.zeros(n, dtype=int, device=device)
        engine.launch(find, n, inputs=[grid.id, on_device, 0.5, count, total, visits], device=device)
        assert np.array_equal(count.numpy(), expected(points, 0.5)[0])


def test_making_room_keeps_the_points(device, rng):
    points = rng.normal(0.0, 1.0, (50, 3)).astype(np.float32)
    on_device = engine.array(points, dtype=k.vec3, device=device)
    grid = HashGrid(8, 8, 8, device=device)
    grid.build(on_device, 0.5)
    for room in (1000, 10):
        grid.reserve(room)
        count = engine.full(50, -1, dtype=int, device=device)
        total, visits = engine.zeros(50, dtype=k.int64, device=device), engine.zeros(50, dtype=int, device=device)
        engine.launch(find, 50, inputs=[grid.id, on_device, 0.5, count, total, visits], device=device)
        assert np.array_equal(count.numpy(), expected(points, 0.5)[0])
    with pytest.raises(NotImplementedError, match="reserve before capture"), engine.ScopedCapture(device):
        grid.reserve(2000)


def test_order_of_points_is_a_permutation_that_threads_do_not_change(rng):
    points = engine.array(rng.normal(0.0, 3.0, (20_000, 3)).astype(np.float32), dtype=k.vec3)
    orders = []
    for threads in (1, 2, 4):
        with config.scope(threads=threads):
            grid = HashGrid(32, 32, 32)
            grid.build(points, 0.2)
            orders.append(grid._ids.numpy().copy())
    assert np.array_equal(np.sort(orders[0]), np.arange(20_000))
    assert np.array_equal(orders[0], orders[1]) and np.array_equal(orders[0], orders[2])


@pytest.mark.parametrize("radius", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_radius_is_named(radius):
    with pytest.raises(ArgumentError, match="radius must be positive and finite"):
        HashGrid(4, 4, 4).build(engine.zeros(3, dtype=k.vec3), radius)


def test_bad_grids_and_points_are_named():
    with pytest.raises(ArgumentError, match="1 to 1073741824 cells"):
        HashGrid(4, 0, 4)
    with pytest.raises(ArgumentError, match="1 to 1073741824 cells"):
        HashGrid(4096, 4096, 4096)
    with pytest.raises(ArgumentError, match="points must be an array of vec3"):
        HashGrid(4, 4, 4).build(engine.zeros(3, dtype=float), 1.0)
