"""`for i in query` of boxes, meshes and hash grids; triangles in spheres; slabs around what nodes hold."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import engine
from engine.geom.bvh_build import EMPTY, LEAF, LEAF_WORDS, NODE_WORDS
from engine.geom.mesh_slabs import SLAB_WORDS
from tests.geom.mesh_oracle import distances, ray_hits


@engine.kernel
def in_boxes(bvh: engine.uint64, low: engine.vec3, high: engine.vec3, seen: engine.array(dtype=int)):
    for i in engine.bvh_query_aabb(bvh, low, high):
        seen[i] += 1


@engine.kernel
def in_sphere(mesh: engine.uint64, center: engine.vec3, radius: float, seen: engine.array(dtype=int),
              first: engine.array(dtype=int)):  # fmt: skip
    for i in engine.mesh_query_sphere(mesh, center, radius):
        if seen[i] > 0:
            continue
        seen[i] += 1
    for i in engine.mesh_query_sphere(mesh, center, radius):
        first[0] = i
        break
    else:
        first[0] = -2


@engine.kernel
def near(grid: engine.uint64, points: engine.array(dtype=engine.vec3), group: int, of_all: engine.array(dtype=int),
         of_group: engine.array(dtype=int)):  # fmt: skip
    i = engine.tid()
    for j in engine.hash_grid_query(grid, points[i], 0.3):
        for m in engine.hash_grid_query(grid, points[j], 0.0):  # two queries at once
            if m == j and engine.length(points[j] - points[i]) <= 0.3:
                of_all[i] += 1
    for j in engine.hash_grid_query(grid, points[i], 0.3, group):
        if engine.length(points[j] - points[i]) <= 0.3:
            of_group[i] += 1


def closest_distances(corners, point):
    """Of each triangle (n, 3, 3) to a point."""
    return distances(corners.reshape(-1, 3), np.arange(3 * len(corners)).reshape(-1, 3), point[None])[0]


def soup(rng, n, size=0.4):
    corners = rng.uniform(0, 4, (n, 1, 3)) + rng.uniform(-size, size, (n, 3, 3))
    return corners.astype(np.float32)


def mesh_of(corners, device=None):
    return engine.Mesh(corners.reshape(-1, 3), np.arange(3 * len(corners), dtype=np.int32), device=device)


def test_a_loop_over_boxes_sees_each_once(device, rng):
    low = rng.uniform(-2, 2, (300, 3)).astype(np.float32)
    high = low + rng.uniform(0, 1, (300, 3)).astype(np.float32)
    bvh = engine.Bvh(*(engine.array(x, dtype=engine.vec3, device=device) for x in (low, high)))
    a, b = np.array([-1, -1, -1], np.float32), np.array([0.5, 0.5, 0.5], np.float32)
    seen = engine.zeros(300, dtype=int, device=device)
    engine.launch(in_boxes, 1, inputs=[bvh.id, engine.vec3(*a), engine.vec3(*b), seen], device=device)
    assert seen.numpy().tolist() == ((low <= b) & (a <= high)).all(axis=1).astype(int).tolist()


def test_triangles_in_spheres_are_exact(device, rng):
    corners = soup(rng, 200)
    mesh = mesh_of(corners, device)
    for radius in (0.0, 0.3, 1.0, 9.0):
        center = rng.uniform(0, 4, 3).astype(np.float32)
        seen, first = engine.zeros(200, dtype=int, device=device), engine.full(1, -77, dtype=int, device=device)
        engine.launch(in_sphere, 1, inputs=[mesh.id, engine.vec3(*center), radius, seen, first], device=device)
        distance = closest_distances(corners, center)
        clear = np.abs(distance - radius) > 1e-5
        assert np.array_equal(seen.numpy()[clear], (distance <= radius)[clear].astype(int))
        hits = np.flatnonzero(seen.numpy())
        assert first.numpy()[0] in hits if len(hits) else first.numpy()[0] == -2


def test_triangles_in_spheres_on_the_emulated_gpu(rng):
    corners = soup(rng, 40)
    found = []
    for device in ("cpu", "emu"):
        seen, first = engine.zeros(40, dtype=int, device=device), engine.full(1, -77, dtype=int, device=device)
        mesh = mesh_of(corners, device)
        inputs = [mesh.id, engine.vec3(2.0, 2.0, 1.5), 0.9, seen, first]
        engine.launch(in_sphere, 1, inputs=inputs, device=device)
        found.append([*seen.numpy(), *first.numpy()])
    assert found[0] == found[1] and 0 < sum(found[0][:40]) < 40


def test_loops_over_neighbours_and_their_groups(device, rng):
    points = rng.uniform(-1, 1, (200, 3)).astype(np.float32)
    groups = rng.integers(-2, 2, 200).astype(np.int32)
    grid = engine.HashGrid(8, 8, 8, device=device)
    placed = engine.array(points, dtype=engine.vec3, device=device)
    grid.build(placed, 0.3, groups=engine.array(groups, dtype=int, device=device))
    of_all, of_group = engine.zeros(200, dtype=int, device=device), engine.zeros(200, dtype=int, device=device)
    engine.launch(near, 200, inputs=[grid.id, placed, -1, of_all, of_group], device=device)
    within = np.linalg.norm(points[:, None] - points[None], axis=2) <= np.float32(0.3)
    assert of_all.numpy().tolist() == within.sum(axis=1).tolist()
    assert of_group.numpy().tolist() == (within & (groups == -1)).sum(axis=1).tolist()


def test_what_a_loop_cannot_run_over():
    @engine.kernel
    def over_struct(h: engine.uint64, out: engine.array(dtype=int)):
        for i in engine.mesh_query_ray(h, engine.vec3(), engine.vec3(1.0, 0.0, 0.0), 1.0):
            out[0] = i

    with pytest.raises(engine.CompileError, match="a loop runs over range"):
        engine.launch(over_struct, 1, inputs=[0, engine.zeros(1, dtype=int)])


@engine.kernel
def of_group(tree: engine.uint64, group: int, low: engine.vec3, high: engine.vec3, seen: engine.array(dtype=int)):
    for i in engine.bvh_query_aabb(tree, low, high, engine.bvh_get_group_root(tree, group)):
        seen[i] += 1


@engine.kernel
def first_of_group(mesh: engine.uint64, group: engine.array(dtype=int), o: engine.array(dtype=engine.vec3),
                   d: engine.array(dtype=engine.vec3), face: engine.array(dtype=int), any: engine.array(dtype=int),
                   count: engine.array(dtype=int)):  # fmt: skip
    i = engine.tid()
    root = engine.mesh_get_group_root(mesh, group[i])
    hit = engine.mesh_query_ray(mesh, o[i], d[i], 100.0, root)
    face[i] = -1
    if hit.result:
        face[i] = hit.face
    any[i] = int(engine.mesh_query_ray_anyhit(mesh, o[i], d[i], 100.0, root))
    count[i] = engine.mesh_query_ray_count_intersections(mesh, o[i], d[i], root)


def test_queries_of_one_group(device, rng):
    """Boxes and rays find one group's members only, and nothing of a group that there is not."""
    corners = soup(rng, 300)
    ids = rng.choice([-(2**31), -1, 0, 7, 2**31 - 1], 300).astype(np.int32)
    groups = engine.array(ids, dtype=int, device=device)
    points = engine.array(corners.reshape(-1, 3), dtype=engine.vec3, device=device)
    faces = np.arange(900, dtype=np.int32)
    mesh = engine.Mesh(points, engine.array(faces, dtype=int, device=device), groups=groups)
    low, high = corners.min(axis=1), corners.max(axis=1)
    bvh = engine.Bvh(*(engine.array(x, dtype=engine.vec3, device=device) for x in (low, high)), groups=groups)
    for tree in (mesh, bvh):
        for group in (-(2**31), -1, 0, 7, 2**31 - 1, 3):
            seen = engine.zeros(300, dtype=int, device=device)
            box = [engine.vec3(1.0, 1.0, 1.0), engine.vec3(3.0, 3.0, 3.0)]
            engine.launch(of_group, 1, inputs=[tree.id, group, *box, seen], device=device)
            touched = ((low <= 3) & (high >= 1)).all(axis=1) & (ids == group)
            assert seen.numpy().tolist() == touched.astype(int).tolist()
    n = 80
    asked = rng.choice([*np.unique(ids), 3], n).astype(np.int32)
    o, d = rng.uniform(0, 4, (n, 3)).astype(np.float32), rng.normal(size=(n, 3)).astype(np.float32)
    t = ray_hits(corners.reshape(-1, 3), faces.reshape(-1, 3), o, d)
    t[ids[None] != asked[:, None]] = np.inf
    out = [engine.full(n, -77, dtype=int, device=device) for _ in range(3)]
    rays = [engine.array(x, dtype=engine.vec3, device=device) for x in (o, d)]
    inputs = [engine.array(asked, dtype=int, device=device), *rays]
    engine.launch(first_of_group, n, inputs=[mesh.id, *inputs, *out], device=device)
    found = np.isfinite(t).any(axis=1)
    assert out[0].numpy().tolist() == np.where(found, t.argmin(axis=1), -1).tolist()
    assert out[1].numpy().tolist() == found.astype(int).tolist()
    assert out[2].numpy().tolist() == np.isfinite(t).sum(axis=1).tolist()


def corners_below(nodes, leaves, child):
    """All finite corners that a child holds."""
    if child >= 0:
        words = nodes[NODE_WORDS * child + 48 : NODE_WORDS * child + 56].view(np.int32)
        parts = [corners_below(nodes, leaves, c) for c in words if c != EMPTY]
        return np.concatenate(parts) if parts else np.zeros((0, 3))
    leaf, count = divmod(~child, LEAF)
    rows = leaves[LEAF_WORDS * leaf : LEAF_WORDS * leaf + 9 * LEAF].reshape(3, 3, LEAF)[:, :, : count + 1]
    found = rows.transpose(0, 2, 1).reshape(-1, 3).astype(np.float64)
    return found[np.isfinite(found).all(axis=1)]


shapes = st.sampled_from(["soup", "plane", "line", "point", "ball", "far", "huge", "tiny"])


@settings(max_examples=16, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 80), shapes)
@example(171, 9, "soup")  # z of a normal that is nearly level differed in build and query
def test_slabs_hold_all_corners_and_closest_points_are_closest(seed, n, shape):
    rng = np.random.default_rng(seed)
    corners = soup(rng, n).astype(np.float64)
    if shape == "plane":
        corners[..., 1] = 0.3 * corners[..., 0] - 0.7 * corners[..., 2]
    elif shape == "line":
        corners[..., 1:] = corners[..., :1] * [0.5, -2.0]
    elif shape == "point":
        corners[:] = corners[0, 0]
    elif shape == "ball":
        corners = corners - 2.0
        corners /= np.linalg.norm(corners, axis=2, keepdims=True)
    corners = {"far": corners + 1e4, "huge": corners * 1e12, "tiny": corners * 1e-12}.get(shape, corners)
    corners = corners.astype(np.float32)
    mesh = mesh_of(corners)
    if seed % 2:
        mesh.points.assign(np.ascontiguousarray(corners[::-1].reshape(-1, 3)))
        mesh.refit()
        corners = corners[::-1]
    tree = mesh._tree
    nodes, leaves, slabs = tree.nodes.numpy(), tree.leaves.numpy(), tree.slabs.numpy()
    for node in range(len(nodes) // NODE_WORDS):
        for c in range(8):
            child = int(nodes[NODE_WORDS * node + 48 + c : NODE_WORDS * node + 49 + c].view(np.int32)[0])
            if child == EMPTY:
                continue
            x, y, least, most = slabs[SLAB_WORDS * node + c : SLAB_WORDS * (node + 1) : 8].astype(np.float64)
            flat = np.float32(np.float32(1 - y * y) - x * x)  # rounded as in the queries
            normal = np.array([x, y, np.sqrt(np.maximum(flat, np.float32(0)))])
            along = corners_below(nodes, leaves, child) @ normal
            assert (least <= along).all() and (along <= most).all()
    scale = np.abs(corners).max()
    points = (corners.mean(axis=(0, 1)) + rng.normal(size=(20, 3)) * np.ptp(corners, axis=(0, 1))).astype(np.float32)
    found = mesh.closest(points)
    expected = distances(corners.reshape(-1, 3), np.arange(3 * n).reshape(-1, 3), points).min(axis=1)
    assert found.distance == pytest.approx(expected, rel=1e-5, abs=float(1e-12 * scale))
