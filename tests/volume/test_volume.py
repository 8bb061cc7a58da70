"""Sparse volumes against plain NumPy: numbers of voxels, lookups, samples, derivatives, files, and damaged files."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine.errors import ArgumentError
from engine.volume import layout as at
from engine.volume.check import read_grid

FAR = 1 << 20


@engine.kernel
def look_f(volume: engine.uint64, voxels: engine.array(dtype=engine.vec3i), value: engine.array(dtype=float),
           number: engine.array(dtype=int)):  # fmt: skip
    i = engine.tid()
    v = voxels[i]
    value[i] = engine.volume_lookup_f(volume, v[0], v[1], v[2])
    number[i] = engine.volume_lookup_index(volume, v[0], v[1], v[2])


@engine.kernel
def sample_f(volume: engine.uint64, places: engine.array(dtype=engine.vec3), mode: int,
             value: engine.array(dtype=float), slope: engine.array(dtype=engine.vec3)):  # fmt: skip
    i = engine.tid()
    grad = engine.vec3()
    value[i] = engine.volume_sample_grad_f(volume, places[i], mode, grad)
    slope[i] = grad


def poisoned(n, dtype, device):
    return engine.full(n, -77, dtype=dtype, device=device)


def looked_up(volume, voxels, device):
    value, number = poisoned(len(voxels), float, device), poisoned(len(voxels), int, device)
    inputs = [volume.id, engine.array(voxels.astype(np.int32), dtype=engine.vec3i, device=device), value, number]
    engine.launch(look_f, len(voxels), inputs=inputs, device=device)
    return value.numpy(), number.numpy()


def dense_sample(values, background, place):
    """(value, slope) of trilinear interpolation in float64; voxels outside of the array are background."""

    def voxel(i, j, k):
        inside = all(0 <= a < n for a, n in zip((i, j, k), values.shape, strict=True))
        return float(values[i, j, k]) if inside else background

    low = np.floor(place).astype(int)
    t = place - low
    total, slope = 0.0, np.zeros(3)
    for corner in np.ndindex(2, 2, 2):
        w = [t[a] if corner[a] else 1 - t[a] for a in range(3)]
        v = voxel(*(low + corner))
        total += w[0] * w[1] * w[2] * v
        for a in range(3):
            slope[a] += v * (1 if corner[a] else -1) * w[(a + 1) % 3] * w[(a + 2) % 3]
    return total, slope


def test_the_layout_is_nanovdbs():
    """Sizes of root, upper, lower and leaf nodes, and strides of tables, as published for version 32."""
    sizes = {kind.name: (s.root, s.tile, s.stride, s.upper, s.lower, s.leaf)
             for kind in at.KINDS.values() for s in [at.layout(kind)]}  # fmt: skip
    assert sizes["float"] == (64, 32, 8, 270400, 33856, 2144)
    assert sizes["Vec3f"] == (96, 32, 16, 532544, 66624, 6272)
    assert sizes["Vec4d"] == (160, 64, 32, 1056896, 132224, 16544)
    assert sizes["OnIndex"] == (96, 32, 8, 270400, 33856, 96)
    assert sizes["Vec3u16"] == (64, 32, 8, 270400, 33856, 3200)


def test_voxels_of_a_dense_array(device):
    rng = np.random.default_rng(3)
    values = rng.normal(size=(20, 9, 17)).astype(np.float32)
    values[8:16, 0:8, 8:16] = -1.0  # a tile of nothing but background is not stored
    volume = engine.Volume.load_from_numpy(values, min_world=(1, 2, 3), voxel_size=(0.5, 1.0, 2.0), bg_value=-1.0,
                                           device=device)  # fmt: skip
    assert volume.get_tile_count() == 3 * 2 * 3 - 1 and volume.dtype is engine.float32 and not volume.is_index
    voxels = np.array(list(np.ndindex(26, 18, 26))) - 3
    found, _number = looked_up(volume, voxels, device)
    inside = ((voxels >= 0) & (voxels < values.shape)).all(axis=1)
    expected = np.where(inside, values[tuple(np.where(inside[:, None], voxels, 0).T)], -1.0)
    assert np.array_equal(found, expected)
    assert volume.get_voxel_size() == (0.5, 1.0, 2.0)
    assert list(volume.get_grid_info().translation) == [1, 2, 3]


@pytest.mark.parametrize("far", [0, 5000, -5000, FAR])
def test_samples_and_slopes_between_voxels(device, far):
    """Across leaves, lower, upper nodes and the root's tiles; far from the origin, too."""
    rng = np.random.default_rng(5)
    values = rng.normal(size=(18, 16, 9)).astype(np.float32)
    tiles = np.array([[i, j, k] for i in (0, 8, 16) for j in (0, 8) for k in (0, 8)]) + 8 * (far // 8)
    tile_points = engine.array(tiles.astype(np.int32), dtype=int, device=device)
    volume = engine.Volume.allocate_by_tiles(tile_points, voxel_size=0.5, bg_value=0.25, device=device)
    voxels = np.array(list(np.ndindex(values.shape)))
    engine.launch(store_f, len(voxels), inputs=[
        volume.id, engine.array((voxels + 8 * (far // 8)).astype(np.int32), dtype=engine.vec3i, device=device),
        engine.array(values.reshape(-1), dtype=float, device=device)], device=device)  # fmt: skip
    # eighths of a voxel are exact in float32 as far out as that
    places = np.round(rng.uniform(-2, 20, (100, 3)) * 8) / 8
    value, slope = poisoned(len(places), float, device), engine.full(len(places), engine.vec3(-77.0), device=device)
    at_far = engine.array((places + 8 * (far // 8)).astype(np.float32), dtype=engine.vec3, device=device)
    for mode in (engine.Volume.LINEAR, engine.Volume.CLOSEST):
        engine.launch(sample_f, len(places), inputs=[volume.id, at_far, mode, value, slope], device=device)
        for place, v, s in zip(places, value.numpy(), slope.numpy(), strict=True):
            if mode == engine.Volume.LINEAR:
                expected, expected_slope = dense_sample(values, 0.25, place)
            else:  # halves away from zero, of the numbers that the kernel sees
                seen = place + 8 * (far // 8)
                nearest = np.trunc(seen + np.copysign(0.5, seen)) - 8 * (far // 8)
                expected, expected_slope = dense_sample(values, 0.25, nearest)[0], np.zeros(3)
            assert v == pytest.approx(expected, abs=2e-6)
            assert s == pytest.approx(expected_slope, abs=4e-6)


@engine.kernel
def store_f(volume: engine.uint64, voxels: engine.array(dtype=engine.vec3i), values: engine.array(dtype=float)):
    i = engine.tid()
    engine.volume_store_f(volume, voxels[i][0], voxels[i][1], voxels[i][2], values[i])


coordinates = st.integers(-5000, 5000) | st.integers(-20, 20) | st.sampled_from([-FAR, FAR, 4095, 4096, -4096, -1])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(coordinates, coordinates, coordinates), min_size=1, max_size=40))
def test_index_grids_number_their_voxels(voxels):
    """Each voxel once, in an order that lookups give back; others have none."""
    voxels = np.array(voxels, np.int32)
    volume = engine.Volume.allocate_by_voxels(engine.array(voxels, dtype=int), voxel_size=0.1)
    listed = volume.get_voxels().numpy()
    assert volume.is_index and volume.get_voxel_count() == len(listed)
    assert sorted(map(tuple, listed)) == sorted(set(map(tuple, voxels)))
    tiles = {tuple(int(a) & ~7 for a in v) for v in voxels}
    assert set(map(tuple, volume.get_tiles().numpy().tolist())) == tiles
    around = np.concatenate([listed, listed + [0, 0, 1], listed - [0, 8, 0], listed + [4096, 0, 0]])
    _value, number = looked_up(volume, around, engine.get_device("cpu"))
    known = {tuple(v): n for n, v in enumerate(listed.tolist())}
    assert number.tolist() == [known.get(tuple(v), -1) for v in around.tolist()]


def test_numbers_count_all_voxels_of_value_grids(device):
    tiles = engine.array(np.array([[0, 0, 0], [100, -9, 7], [0, 0, 0]], np.int32), dtype=int, device=device)
    volume = engine.Volume.allocate_by_tiles(tiles, voxel_size=1.0, bg_value=7.0, device=device)
    voxels = volume.get_voxels().numpy()
    assert len(voxels) == volume.get_voxel_count() == 1024
    value, number = looked_up(volume, voxels, device)
    assert (value == 7.0).all() and number.tolist() == list(range(1024))


@engine.kernel
def sample_values(
    volume: engine.uint64,
    places: engine.array(dtype=engine.vec3),
    data: engine.array(dtype=engine.float64),
    background: engine.array(dtype=engine.float64),
    value: engine.array(dtype=engine.float64),
):
    i = engine.tid()
    value[i] = engine.volume_sample_index(volume, places[i], engine.Volume.LINEAR, data, background[0])


@engine.kernel
def sample_world(
    volume: engine.uint64, places: engine.array(dtype=engine.vec3), value: engine.array(dtype=engine.float64)
):
    i = engine.tid()
    uvw = engine.volume_world_to_index(volume, places[i])
    value[i] = engine.volume_sample(volume, uvw, engine.Volume.LINEAR, dtype=engine.float64)


def test_derivatives_by_place_values_and_background(device):
    rng = np.random.default_rng(7)
    voxels = np.array(list(np.ndindex(4, 4, 4))[:50], np.int32)
    volume = engine.Volume.allocate_by_voxels(engine.array(voxels, dtype=int, device=device), voxel_size=1.0)
    places = rng.integers(0, 4, (12, 3)) + rng.uniform(0.2, 0.8, (12, 3))
    data = rng.normal(size=50)

    def run(places, data, background):
        arrays = [engine.array(np.asarray(x, np.float32 if d is engine.vec3 else np.float64), dtype=d, device=device,
                               requires_grad=True) for x, d in
                  ((places, engine.vec3), (data, engine.float64), ([background], engine.float64))]  # fmt: skip
        out = engine.zeros(len(places), dtype=engine.float64, device=device, requires_grad=True)
        tape = engine.Tape()
        with tape:
            engine.launch(sample_values, len(places), inputs=[volume.id, *arrays, out], device=device)
        return tape, arrays, out

    tape, (p, d, b), out = run(places, data, 0.5)
    out.grad.fill_(1.0)
    tape.backward()
    # linear in values and background: the derivative is exact
    assert (d.grad.numpy() * data).sum() + 0.5 * b.grad.numpy()[0] == pytest.approx(out.numpy().sum(), rel=1e-6)
    for axis in range(3):  # linear along an axis within a cell
        step = np.zeros(3)
        step[axis] = 2.0**-4
        slope = (run(places + step, data, 0.5)[2].numpy() - run(places - step, data, 0.5)[2].numpy()) * 8.0
        assert p.grad.numpy()[:, axis] == pytest.approx(slope, abs=1e-4)


def test_the_derivative_by_a_place_in_the_world_is_turned_back(device):
    turn = np.array([[0.0, 0.0, 0.5], [0.5, 0.0, 0.0], [0.0, -2.0, 0.0]])
    values = np.random.default_rng(9).normal(size=(8, 8, 8))
    tiles = engine.array(np.zeros((1, 3), np.int32), dtype=int, device=device)
    volume = engine.Volume.allocate_by_tiles(tiles, transform=turn, translation=(1.0, -2.0, 0.5),
                                             dtype=engine.float64, device=device)  # fmt: skip
    assert volume.dtype is engine.float64
    flat = engine.array(values.reshape(-1), dtype=engine.float64, device=device)
    engine.launch(store_d, 512, inputs=[volume.id, flat], device=device)
    uvw = np.array([[2.25, 3.5, 4.75], [0.5, 6.5, 1.25]])
    places = engine.array((uvw @ turn.T + [1.0, -2.0, 0.5]).astype(np.float32), dtype=engine.vec3, device=device,
                          requires_grad=True)  # fmt: skip
    out = engine.zeros(2, dtype=engine.float64, device=device, requires_grad=True)
    tape = engine.Tape()
    with tape:
        engine.launch(sample_world, 2, inputs=[volume.id, places, out], device=device)
    out.grad.fill_(1.0)
    tape.backward()
    for i, place in enumerate(uvw):
        value, slope = dense_sample(values, 0.0, place)
        assert out.numpy()[i] == pytest.approx(value, abs=1e-6)
        assert places.grad.numpy()[i] == pytest.approx(np.linalg.inv(turn).T @ slope, abs=1e-5)


mat34 = engine.types.matrix(shape=(3, 4), dtype=float)


@engine.kernel
def slope_in_rows(volume: engine.uint64):
    grad = mat34()
    engine.volume_sample_grad(volume, engine.vec3(), engine.Volume.LINEAR, grad, dtype=engine.vec4)


def test_slopes_of_another_shape_are_refused():
    with pytest.raises(engine.CompileError, match="expected mat43f, got mat34f"):
        engine.launch(slope_in_rows, 1, inputs=[0])


@engine.kernel
def store_d(volume: engine.uint64, values: engine.array(dtype=engine.float64)):
    i = engine.tid()
    engine.volume_store(volume, i // 64, i // 8 % 8, i % 8, values[i])


def test_values_of_another_type_are_neither_read_nor_written(device):
    volume = engine.Volume.allocate([0, 0, 0], [3, 3, 3], 1.0, bg_value=5, device=device)  # int32
    voxels = np.zeros((1, 3), np.int32)
    engine.launch(store_f, 1, inputs=[volume.id, engine.array(voxels, dtype=engine.vec3i, device=device),
                                      engine.array([2.0], dtype=float, device=device)], device=device)  # fmt: skip
    assert looked_up(volume, voxels, device)[0].tolist() == [0.0]
    stored = volume.array().numpy()
    g = read_grid(stored)
    assert (stored[g.first_leaf + at.layout(g.kind).leaf_values :].view("<i4") == 5).all()


def test_files_come_back_as_they_were(tmp_path):
    values = np.random.default_rng(1).normal(size=(9, 5, 12))
    for made in (engine.Volume.load_from_numpy(values, bg_value=0.0), engine.Volume.load_from_numpy(values, bg_value=3),
                 engine.Volume.load_from_numpy(np.stack([values] * 3, axis=-1), bg_value=(0.0, 1.0, 2.0)),
                 engine.Volume.allocate_by_voxels(np.array([[1, 2, 3], [900, 2, 3]]), voxel_size=1.0)):  # fmt: skip
        for codec in ("none", "zip"):
            made.save_to_nvdb(tmp_path / "a.nvdb", codec)
            read = engine.Volume.load_from_nvdb(tmp_path / "a.nvdb")
            assert np.array_equal(read.array().numpy(), made.array().numpy())
            assert read.get_grid_info() == made.get_grid_info() and read.load_next_grid() is None


def test_files_packed_with_blosc(tmp_path, monkeypatch):
    pytest.importorskip("numcodecs")
    made = engine.Volume.load_from_numpy(np.random.default_rng(2).normal(size=(30, 9, 20)), voxel_size=0.1)
    path = tmp_path / "a.nvdb"
    made.save_to_nvdb(path, "blosc")
    packed = path.read_bytes()
    first = packed.index(b"\0", 16 + 176) + 1  # behind the name
    assert int.from_bytes(packed[first : first + 8], "little") == len(packed) - first - 8 < made.array().size / 4
    assert packed[first + 8 + 3] == 4 and int.from_bytes(packed[first + 12 : first + 16], "little") == made.array().size
    read = engine.Volume.load_from_nvdb(packed)
    assert np.array_equal(read.array().numpy(), made.array().numpy())
    for size in (first + 4, first + 8, first + 20, len(packed) - 1):
        with pytest.raises(ArgumentError):
            engine.Volume.load_from_nvdb(packed[:size])
    for place, number in ((first, 2**63), (first + 12, 2**31), (first + 20, 3), (first + 24, 2**32 - 1)):
        damaged = bytearray(packed)
        damaged[place : place + 4] = (number & 2**32 - 1).to_bytes(4, "little")
        with pytest.raises(ArgumentError):
            engine.Volume.load_from_nvdb(bytes(damaged))
    monkeypatch.setitem(sys.modules, "numcodecs", None)
    with pytest.raises(ArgumentError, match="takes the package numcodecs"):
        engine.Volume.load_from_nvdb(packed)
    with pytest.raises(ArgumentError, match="takes the package numcodecs"):
        made.save_to_nvdb(path, "blosc")


def test_files_of_nanovdbs_own_tools(assets, tmp_path):
    """Facts of the files are from Warp's reader; the values are those that the files were made of."""
    folder = assets / "nanovdb/warp/warp/tests/assets"
    grid = engine.Volume.load_from_nvdb(folder / "test_grid.nvdb")
    assert (grid.get_voxel_count(), grid.get_tile_count(), grid.get_voxel_size()) == (32768, 64, (0.25,) * 3)
    voxels = np.array(list(np.ndindex(21, 21, 21))) - 10
    assert np.array_equal(looked_up(grid, voxels, grid.device)[0], voxels.prod(axis=1))
    assert looked_up(grid, np.array([[300, 0, 0], [0, -11, 0]]), grid.device)[0].tolist() == [10, 10]
    torus = engine.Volume.load_from_nvdb(folder / "torus.nvdb")
    assert torus.get_grid_info().name == "surface" and list(torus.get_grid_info().translation) == [1, 2, 3]
    index = engine.Volume.load_from_nvdb(folder / "test_index_grid.nvdb")
    voxels = index.get_voxels().numpy()
    assert index.is_index and len(voxels) == index.get_voxel_count() == 16
    assert looked_up(index, voxels, index.device)[1].tolist() == list(range(16))
    assert index.feature_array(0, dtype=engine.uint64).numpy()[:4].tolist() == [3, 16, 2, 3]
    second = index.load_next_grid()
    assert second.get_grid_info().grid_index == 1 and second.load_next_grid() is None
    with pytest.raises(ArgumentError, match="first grid"):
        second.save_to_nvdb(tmp_path / "b.nvdb")
    index.save_to_nvdb(tmp_path / "b.nvdb", "zip")
    again = engine.Volume.load_from_nvdb(tmp_path / "b.nvdb")
    assert np.array_equal(again.array().numpy(), index.array().numpy())


def sound_file(tmp_path):
    volume = engine.Volume.load_from_numpy(np.arange(9.0 * 2 * 2).reshape(9, 2, 2), bg_value=-1.0)
    volume.save_to_nvdb(tmp_path / "sound.nvdb")
    return (tmp_path / "sound.nvdb").read_bytes()


def test_every_cut_and_foreign_files_are_refused(tmp_path):
    sound = sound_file(tmp_path)
    for size in [0, 1, 15, 16, 100, 191, 192, 193, 500, 1000, 300_000, len(sound) - 1]:
        with pytest.raises(ArgumentError):
            engine.Volume.load_from_nvdb(sound[:size])
    for foreign in (b"PK\3\4" + bytes(4000), b"NanoVDB0" + bytes(4000), b"NanoVDB1" + bytes(4000), bytes(10_000)):
        with pytest.raises(ArgumentError):
            engine.Volume.load_from_nvdb(foreign)
    with pytest.raises(ArgumentError):
        engine.Volume.load_from_nvdb(3.5)
    with pytest.raises(FileNotFoundError):
        engine.Volume.load_from_nvdb(tmp_path / "missing.nvdb")


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return sound_file(tmp_path_factory.mktemp("sound"))


INTERESTING = [0, 1, 7, 8, 32, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 32]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_damaged_tree_is_refused_or_harmless(sound, data):
    """Words of headers, masks and tables with other numbers: an error, or lookups that stay within the bytes."""
    damaged = bytearray(sound)
    head = len(sound) - 4 * 2144  # whatever is not a leaf's values
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, 1200) | st.integers(0, head // 8 - 1).map(lambda w: 8 * w))
        word = data.draw(st.sampled_from(INTERESTING) | st.integers(0, 2**64 - 1))
        damaged[place : place + 8] = word.to_bytes(8, "little")
    try:
        volume = engine.Volume.load_from_nvdb(bytes(damaged))
    except ArgumentError:
        return
    with engine.config.scope(checked=True):
        looked_up(volume, np.array(list(np.ndindex(12, 3, 3))) - 1, volume.device)


@pytest.mark.parametrize("size", [0.0, -1.0, float("nan"), float("inf"), (1.0, 2.0), "1", None, (1.0, -1.0, 1.0)])
def test_voxel_sizes_are_positive(size):
    with pytest.raises(ArgumentError):
        engine.Volume.load_from_numpy(np.zeros((2, 2, 2)), voxel_size=size)
    with pytest.raises(ArgumentError):
        engine.Volume.allocate([0, 0, 0], [1, 1, 1], size)


def test_what_else_is_refused():
    for points in (np.zeros((3, 2)), np.full((1, 3), np.nan), np.full((1, 3), 1e30), np.array([[2**31, 0, 0]])):
        with pytest.raises(ArgumentError):
            engine.Volume.allocate_by_voxels(points, voxel_size=1.0)
    for low, high in (([0, 0], [1, 1]), ([0, 0, 0], [2e9, 2e9, 2e9]), ([0, 0, np.nan], [1, 1, 1])):
        with pytest.raises(ArgumentError):
            engine.Volume.allocate(low, high, 1.0)
    with pytest.raises(ArgumentError):
        engine.Volume.load_from_numpy(np.zeros((2, 2)))
    with pytest.raises(ArgumentError):
        engine.Volume.load_from_numpy(np.zeros((2, 2, 2)), bg_value=(1.0, 2.0))
    with pytest.raises(ArgumentError):
        engine.Volume.allocate_by_tiles(np.zeros((1, 3)), transform=np.zeros((3, 3)))
    with pytest.raises(ArgumentError):
        engine.Volume(engine.zeros(1000, dtype=engine.uint8))
    with pytest.raises(ArgumentError):
        engine.Volume(np.zeros(1000, np.uint8))


def test_empty_volumes_are_all_background(device):
    empty = engine.Volume.allocate_by_voxels(np.zeros((0, 3), int), voxel_size=1.0, device=device)
    assert empty.get_voxel_count() == empty.get_tile_count() == 0 and empty.get_voxels().shape == (0, 3)
    full = engine.Volume.load_from_numpy(np.full((9, 9, 9), 2.0), bg_value=2.0, device=device)
    assert full.get_tile_count() == 0
    assert looked_up(full, np.array([[1, 1, 1], [-5, 0, 9]]), device)[0].tolist() == [2, 2]
    value, number = poisoned(1, float, device), poisoned(1, int, device)
    voxels = engine.zeros(1, dtype=engine.vec3i, device=device)
    engine.launch(look_f, 1, inputs=[0, voxels, value, number], device=device)
    assert value.numpy()[0] == 0.0 and number.numpy()[0] == -1


def test_places_that_are_no_numbers_give_what_they_can(device):
    volume = engine.Volume.load_from_numpy(np.ones((8, 8, 8)), bg_value=0.5, device=device)
    places = np.array([[np.nan, 0, 0], [np.inf, 0, 0], [0, -np.inf, 0], [1e30, 1, 1], [2e9, 2e9, -2e9]], np.float32)
    value, slope = poisoned(5, float, device), engine.full(5, engine.vec3(-77.0), device=device)
    inputs = [volume.id, engine.array(places, dtype=engine.vec3, device=device), engine.Volume.CLOSEST, value, slope]
    engine.launch(sample_f, 5, inputs=inputs, device=device)
    assert set(value.numpy()[1:]) == {0.5}
    inputs[2] = engine.Volume.LINEAR
    engine.launch(sample_f, 5, inputs=inputs, device=device)


def test_volumes_page(tmp_path):
    """The examples of docs/volumes.md, one after the other."""
    page = (Path(__file__).parents[2] / "docs/volumes.md").read_text()
    path = tmp_path / "page.py"
    path.write_text("\n".join(re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)))
    exec(compile(path.read_text(), str(path), "exec"), {"__name__": "page"})


def test_damage_in_a_later_grid_is_said_before_what_is_not_supported(tmp_path):
    plain = np.frombuffer(sound_file(tmp_path), np.uint8)[16 + 176 + 1 :].copy()
    other_order = plain.copy()
    other_order[at.FLAGS_AT] &= ~np.uint8(at.BREADTH_FIRST)
    damaged = plain.copy()
    damaged[at.BLIND_AT : at.BLIND_AT + 8] = 255
    damaged[at.NAME_AT : at.NAME_AT + at.NAME_SIZE] = 65
    for grids, message in ((other_order, "not in breadth-first order"), (damaged, "name has no end")):
        with pytest.raises(ArgumentError, match=message):
            engine.Volume.load_from_nvdb(grids.tobytes())
    with pytest.raises(ArgumentError, match="name has no end"):
        engine.Volume.load_from_nvdb(np.concatenate([other_order, damaged]).tobytes())
