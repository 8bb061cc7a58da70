"""Bad meshes, boxes, volumes and questions: no access out of bounds, in checked mode and on the traced emulated GPU."""

import numpy as np
import pytest

import engine
from engine.debug import trace
from engine.errors import ArgumentError
from tests.geom import mesh_oracle

COUNT = 16  # questions
Vecs = engine.array(dtype=engine.vec3)


@engine.kernel
def ask_mesh(mesh: engine.uint64, o: Vecs, d: Vecs, radius: engine.array(dtype=float), n: engine.array(dtype=int)):
    i = engine.tid()
    total = 0
    near = engine.mesh_query_point_sign_normal(mesh, o[i], radius[i])
    if near.result:
        total += int(engine.mesh_eval_velocity(mesh, near.face, near.u, near.v)[0])
    total += engine.mesh_query_furthest_point_no_sign(mesh, o[i], radius[i]).face
    for face in engine.mesh_query_sphere(mesh, o[i], radius[i]):
        total += face
    n[i] = total + engine.mesh_query_ray_count_intersections(mesh, o[i], d[i], engine.mesh_get_group_root(mesh, i - 4))


@engine.kernel
def ask_boxes(bvh: engine.uint64, o: Vecs, d: Vecs, radius: engine.array(dtype=float), n: engine.array(dtype=int)):
    i = engine.tid()
    total = 0
    for box in engine.bvh_query_aabb(bvh, o[i], d[i], engine.bvh_get_group_root(bvh, i - 4)):
        total += box
    for box in engine.bvh_query_capsule(bvh, o[i], d[i], radius[i]):
        total += box
    query = engine.bvh_query_ray(bvh, o[i], d[i])
    index = 0
    while engine.bvh_query_next(query, index, radius[i]):
        for other in engine.bvh_query_sphere(bvh, o[i], radius[i]):
            total += other - index
    n[i] = total


@engine.kernel
def ask_grid(grid: engine.uint64, o: Vecs, d: Vecs, radius: engine.array(dtype=float), n: engine.array(dtype=int)):
    i = engine.tid()
    total = 0
    for j in engine.hash_grid_query(grid, o[i], engine.min(radius[i], 3.0)):
        total += j + engine.hash_grid_point_id(grid, j)
    n[i] = total


@engine.kernel
def ask_volume(volume: engine.uint64, o: Vecs, d: Vecs, radius: engine.array(dtype=float), n: engine.array(dtype=int)):
    i = engine.tid()
    grad = engine.vec3()
    value = engine.volume_sample_grad_f(volume, o[i], engine.Volume.LINEAR, grad)
    value += engine.volume_sample_f(volume, d[i], engine.Volume.CLOSEST)
    a, b = int(engine.clamp(o[i][0], -2.0e9, 2.0e9)), int(engine.clamp(d[i][1], -2.0e9, 2.0e9))
    c = 2147483647 * (i % 2)
    engine.volume_store_f(volume, a, b, c, value)
    n[i] = engine.volume_lookup_index(volume, a, b, c) + int(engine.volume_lookup(volume, a, b, c, dtype=bool))


@engine.kernel
def ask_corners(_: engine.uint64, o: Vecs, d: Vecs, radius: engine.array(dtype=float), n: engine.array(dtype=int)):
    i = engine.tid()
    a, b, c = o[i], d[i], o[(i + 1) % len(o)]
    e, f, g = d[(i + 1) % len(d)], o[(i + 2) % len(o)], d[(i + 2) % len(d)]
    n[i] = engine.intersect_tri_tri(a, b, c, e, f, g)
    n[i] += int(engine.isfinite(engine.closest_point_edge_edge(a, b, c, e, radius[i])))


def meshes(device):
    """(points, triangles) that are empty, small, flat, broken, huge."""
    sphere, faces = mesh_oracle.sphere(1)
    broken = sphere.copy()
    broken[::5, 1] = np.resize([np.nan, np.inf, -np.inf, 3.4e38], len(broken[::5]))
    cases = [(sphere, faces[:0]), (sphere, faces[:2]), (broken, faces), (sphere * [1e30, 1e30, 0.0], faces[::4]),
             (np.zeros((3, 3)), np.zeros((9, 3), int))]  # fmt: skip
    for v, f in cases:
        with np.errstate(all="ignore"):
            v = np.asarray(v, np.float32)
        groups = engine.array(np.arange(len(f)) % 3, dtype=int, device=device)
        yield engine.Mesh(v, np.asarray(f, np.int32), np.ones_like(v), True, groups, device=device)


def questions(device):
    ends = [0.0, 1.0, -0.3, np.nan, np.inf, -np.inf, 3.4e38, 1e-45, -0.0]
    rng = np.random.default_rng(1)
    likely = [0.2, 0.2, 0.3, *[0.05] * 6]
    o, d = (rng.choice(ends, (COUNT, 3), p=likely).astype(np.float32) for _ in range(2))
    o[:8], d[:8] = rng.normal(size=(8, 3)), rng.normal(size=(8, 3))
    radius = np.resize(np.float32([1.0, 0.5, 0.0, -1.0, np.nan, np.inf, 3.4e38]), COUNT)
    arrays = [engine.array(x, dtype=engine.vec3, device=device) for x in (o, d)]
    return [*arrays, engine.array(radius, dtype=float, device=device), engine.zeros(COUNT, dtype=int, device=device)]


def everything(device):
    """All questions to all of them."""
    asked = questions(device)
    o, d = asked[0].numpy(), asked[1].numpy()
    for mesh in meshes(device):
        engine.launch(ask_mesh, COUNT, inputs=[mesh.id, *asked], device=device)
        for found in (mesh.intersect(o, d), mesh.intersect_all(o, d), mesh.closest(o), mesh.contains(o)):
            assert found is not None
    boxes = [engine.array(asked[k].numpy(), dtype=engine.vec3, device=device) for k in (0, 1)]
    for n in (1, COUNT):
        bvh = engine.Bvh(boxes[0][:n], boxes[1][:n], groups=engine.array(np.arange(n) % 5, dtype=int, device=device))
        engine.launch(ask_boxes, COUNT, inputs=[bvh.id, *asked], device=device)
        grid = engine.HashGrid(4, 5, 6, device=device)
        grid.build(boxes[0][:n], 0.5)
        engine.launch(ask_grid, COUNT, inputs=[grid.id, *asked], device=device)
    values = np.random.default_rng(2).normal(size=(9, 9, 9))
    plain = engine.Volume.load_from_numpy(values, device=device)
    bits = engine.Volume.load_from_numpy(values > 0, bg_value=False, dtype=bool, device=device)
    index = engine.Volume.allocate_by_voxels(np.arange(9).reshape(3, 3), voxel_size=1.0, device=device)
    empty = engine.Volume.load_from_numpy(np.zeros((8, 8, 8)), device=device)
    for volume in (plain, plain.quantised(tolerance=0.1), bits, index, empty):
        engine.launch(ask_volume, COUNT, inputs=[volume.id, *asked], device=device)
    for kernel in (ask_mesh, ask_boxes, ask_volume, ask_corners):
        engine.launch(kernel, COUNT, inputs=[0, *asked], device=device)


def test_checked_mode_finds_nothing():
    with engine.config.scope(checked=True):
        everything("cpu")


def test_memcheck_finds_nothing():
    with trace(["mem"]) as report:
        everything("emu")
    assert not report.findings, report.findings[:3]


@pytest.mark.parametrize("radius", [0.0, -1.0, np.nan, np.inf, "1", None])
def test_cells_of_hash_grids_have_a_size(radius):
    grid = engine.HashGrid(4, 4, 4)
    with pytest.raises((ArgumentError, TypeError, ValueError)):
        grid.build(engine.zeros(3, dtype=engine.vec3), radius)


def test_grids_have_room_for_no_fewer_points_than_none():
    with pytest.raises(ArgumentError, match="room for -1 points"):
        engine.HashGrid(4, 4, 4).reserve(-1)


def test_indices_that_went_out_of_range_are_found_by_the_next_build():
    v, f = mesh_oracle.box()
    indices = engine.array(f.ravel(), dtype=int)
    mesh = engine.Mesh(engine.array(v, dtype=engine.vec3), indices)
    for wrong in (8, -1, 2**31 - 1):
        indices.assign(np.where(f == 3, wrong, f).ravel())
        with pytest.raises(ArgumentError, match=f"index {wrong} is out of range"):
            mesh.rebuild()
        with engine.config.scope(checked=True):  # refits neither look nor read out of bounds
            mesh.refit()
    indices.assign(f.ravel())
    mesh.rebuild()
    assert mesh.contains([[0, 0, 0]]).all()
