"""Volumes of codes and bits: what kernels read against the bytes, by the published layout, and against the values."""

import numpy as np
import pytest

import engine
from engine.errors import ArgumentError
from engine.volume import layout as at
from engine.volume.check import read_grid
from tests.volume.test_volume import looked_up, sample_f

BITS = {"Float4": 4, "Float8": 8, "Float16": 16}


@engine.kernel
def look_b(volume: engine.uint64, voxels: engine.array(dtype=engine.vec3i), value: engine.array(dtype=engine.bool_),
           nearest: engine.array(dtype=engine.bool_)):  # fmt: skip
    i = engine.tid()
    v = voxels[i]
    value[i] = engine.volume_lookup(volume, v[0], v[1], v[2], dtype=bool)
    place = engine.vec3(float(v[0]) + 0.3, float(v[1]) - 0.4, float(v[2]) + 0.2)
    nearest[i] = engine.volume_sample(volume, place, engine.Volume.LINEAR, dtype=engine.bool_)


@engine.kernel
def write_f(volume: engine.uint64, value: float):
    engine.volume_store_f(volume, 0, 0, 0, value)


@engine.kernel
def write_b(volume: engine.uint64):
    engine.volume_store(volume, 0, 0, 0, True)


def field(shape=(20, 12, 17), seed=3):
    """Smooth but for one tile of one value, so that steps are 0 there."""
    x, y, z = np.meshgrid(*[np.linspace(0, 3, n) for n in shape], indexing="ij")
    values = (np.sin(x) * np.cos(2 * y) + 0.3 * z + 5.0).astype(np.float32)
    values[8:16, 0:8, 8:16] = 2.5
    values[0:8, 0:8, 0:8] += np.random.default_rng(seed).normal(size=(8, 8, 8)).astype(np.float32)
    return values


def made(values, **options):
    plain = engine.Volume.load_from_numpy(values, min_world=(1, 2, 3), voxel_size=0.5, bg_value=-1.0)
    return plain.quantised(**options)


def from_bytes(volume, voxels):
    """Values of voxels by the layout of LeafData<Fp4, Fp8, Fp16, FpN>, tile by tile."""
    g = read_grid(volume.array().numpy())
    data, at_byte, found = volume.array().numpy(), g.first_leaf, {}
    for _ in range(g.leaves):
        bits = BITS.get(g.kind.name) or 1 << (int(data[at_byte + 15]) >> 5)
        low, step = data[at_byte + 80 : at_byte + 88].view("<f4")
        number = int.from_bytes(data[at_byte + 96 : at_byte + 96 + 64 * bits].tobytes(), "little")
        corner = data[at_byte : at_byte + 12].view("<i4") & ~7
        for n in range(512):
            code = number >> n * bits & (1 << bits) - 1
            found[tuple(corner + [n >> 6, n >> 3 & 7, n & 7])] = np.float64(low) + np.float64(step) * code
        at_byte += 96 + 64 * bits
    return np.array([found.get(tuple(v), -1.0) for v in voxels])


@pytest.mark.parametrize("options", [{"bits": 4}, {"bits": 8}, {"bits": 16}, {"tolerance": 0.02}, {"tolerance": 0.0}])
def test_codes_are_read_as_the_layout_says(options, tmp_path):
    values = field()
    volume = made(values, **options)
    voxels = np.array(list(np.ndindex(26, 14, 19))) - 2
    found, number = looked_up(volume, voxels, volume.device)
    np.testing.assert_allclose(found, from_bytes(volume, voxels), rtol=2e-7, atol=1e-7)
    inside = ((voxels >= 0) & (voxels < values.shape)).all(axis=1)
    np.testing.assert_array_equal(found[~inside & (voxels < 0).any(axis=1)], -1.0)
    error = np.abs(found[inside] - values[tuple(voxels[inside].T)])
    if "bits" in options:
        assert error.max() <= 0.51 * (values.max() + 1.0) / (2 ** options["bits"] - 1) + 1e-6
        assert (number[inside] >= 0).all() and number.max() < volume.get_voxel_count()
    else:
        assert error.max() <= max(options["tolerance"], 3e-4)
        assert (number == -1).all() and volume.get_grid_info().type_str == "FloatN"
    assert volume.dtype is engine.float32 and volume.array().size < 0.75 * 2144 * 18 + 400_000
    volume.save_to_nvdb(tmp_path / "a.nvdb", "zip")
    again = engine.Volume.load_from_nvdb(tmp_path / "a.nvdb")
    np.testing.assert_array_equal(again.array().numpy(), volume.array().numpy())


def test_leaves_have_as_few_bits_as_the_tolerance_needs():
    values = field()
    sizes = [made(values, tolerance=t).array().size for t in (1.0, 0.1, 0.01, 1e-6)]
    assert sizes == sorted(sizes) and len(set(sizes)) == 4
    two = np.zeros((8, 8, 8), np.float32)
    two[::2] = 1.0
    volume = made(two, tolerance=0.0)
    assert volume.array().size == made(two, bits=4).array().size - 352 + 160  # one bit each
    np.testing.assert_array_equal(looked_up(volume, np.array(list(np.ndindex(8, 8, 8))), volume.device)[0], two.ravel())


def test_samples_and_slopes_blend_what_is_read():
    """Linear samples in the middle of tiles and across them equal those of a plain volume of the decoded values."""
    values = field()
    volume = made(values, bits=8)
    voxels = np.array(list(np.ndindex(24, 16, 24)))
    decoded = looked_up(volume, voxels, volume.device)[0].reshape(24, 16, 24)
    plain = engine.Volume.load_from_numpy(decoded, min_world=(1, 2, 3), voxel_size=0.5, bg_value=-1.0)
    places = engine.array(np.random.default_rng(1).uniform(-1, 20, (200, 3)), dtype=engine.vec3)
    got = []
    for v in (volume, plain):
        for mode in (engine.Volume.LINEAR, engine.Volume.CLOSEST):
            value, slope = engine.full(200, np.nan), engine.zeros(200, dtype=engine.vec3)
            engine.launch(sample_f, 200, inputs=[v.id, places, mode, value, slope])
            got.append((value.numpy(), slope.numpy()))
    for a, b in zip(got[:2], got[2:], strict=True):
        np.testing.assert_array_equal(a[0], b[0])
        np.testing.assert_array_equal(a[1], b[1])


def test_tiles_of_upper_nodes_stay(device):
    """Inside of a mesh, where there are no leaves, the distance is − band, also after the quantisation."""
    corners = np.array(list(np.ndindex(2, 2, 2)), np.float32) * 4.0
    triangles = np.array([[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6],
                          [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3]], np.int32)  # fmt: skip
    plain = engine.volume.mesh_to_volume(engine.Mesh(corners, triangles, device=device), 0.1)
    volume = plain.quantised(16)
    voxels = np.array([[20, 20, 20], [200, 0, 0], [1, 20, 20], [-2, 20, 20]])
    found, before = (looked_up(v, voxels, device)[0] for v in (volume, plain))
    np.testing.assert_allclose(found, before, atol=1e-5)
    assert found[0] == np.float32(-0.3) and found[1] == np.float32(0.3)


@pytest.mark.parametrize("mask", [False, True])
def test_bits_and_masks_are_read_as_truth_values(device, mask, tmp_path):
    rng = np.random.default_rng(5)
    values = rng.random((20, 9, 11)) > 0.6
    values[8:16, 0:8, 0:8] = False
    volume = engine.Volume.load_from_numpy(values, bg_value=False, dtype=bool, device=device)
    assert volume.dtype is engine.bool_ and volume.get_grid_info().type_str == "bool"
    assert volume.get_tile_count() == 3 * 2 * 2 - 1
    volume.save_to_nvdb(tmp_path / "a.nvdb", "zip")
    volume = engine.Volume.load_from_nvdb(tmp_path / "a.nvdb", device=device)
    if mask:
        volume = masks_of(volume, device)
    voxels = np.array(list(np.ndindex(26, 12, 14))) - 2
    value, nearest = (engine.full(len(voxels), 1, dtype=engine.bool_, device=device) for _ in range(2))
    inputs = [volume.id, engine.array(voxels.astype(np.int32), dtype=engine.vec3i, device=device), value, nearest]
    engine.launch(look_b, len(voxels), inputs=inputs, device=device)
    inside = ((voxels >= 0) & (voxels < values.shape)).all(axis=1)
    expected = inside & values[tuple(np.where(inside[:, None], voxels, 0).T)]
    np.testing.assert_array_equal(value.numpy(), expected)
    np.testing.assert_array_equal(nearest.numpy(), expected)
    assert looked_up(volume, voxels[:5], device)[0].tolist() == [0.0] * 5  # another type


def masks_of(volume, device):
    """The same voxels as a grid of NanoVDB's ValueMask: leaves of 96 bytes, whose mask is the value."""
    data = volume.array().numpy().copy()
    g = read_grid(data)
    leaves = data[g.first_leaf : g.first_leaf + 160 * g.leaves].reshape(-1, 160)
    shorter = np.zeros((g.leaves, 96), np.uint8)
    shorter[:, :16], shorter[:, 16:80] = leaves[:, :16], leaves[:, 80:144]
    out = np.concatenate([data[: g.first_leaf], shorter.reshape(-1)])
    rows = out[g.first_lower : g.first_leaf].reshape(g.lowers, -1)
    entries = rows[:, at.layout(at.KINDS[8]).lower_table :].reshape(g.lowers, 4096, 8)
    has = np.unpackbits(rows[:, 544 : 544 + 512], axis=1, bitorder="little").astype(bool)
    own = g.first_lower + np.nonzero(has)[0] * rows.shape[1]
    child = np.ascontiguousarray(entries[has]).view("<i8").reshape(-1) + own
    moved = g.first_leaf + (child - g.first_leaf) // 160 * 96
    entries[has] = (moved - own).astype("<i8").view(np.uint8).reshape(-1, 8)
    for offset, number, dtype in ((636, 8, "<u4"), (32, len(out), "<u8"), (640, len(out), "<u8")):
        raw = np.array([number], dtype).view(np.uint8)
        out[offset : offset + len(raw)] = raw
    return engine.Volume(engine.array(out, dtype=engine.uint8, device=device))


def test_codes_and_bits_are_not_written_to():
    volume = made(field(), bits=8)
    bits = engine.Volume.load_from_numpy(np.zeros((8, 8, 8)), bg_value=True, dtype=engine.bool_)
    for v, kernel, arguments in ((volume, write_f, [3.0]), (bits, write_b, [])):
        before = v.array().numpy().copy()
        engine.launch(kernel, 1, inputs=[v.id, *arguments])
        np.testing.assert_array_equal(v.array().numpy(), before)


def test_what_cannot_be_quantised_is_refused():
    volume = engine.Volume.load_from_numpy(field())
    for options in ({}, {"bits": 5}, {"bits": 8, "tolerance": 0.1}, {"tolerance": -1.0}, {"tolerance": np.nan}):
        with pytest.raises(ArgumentError):
            volume.quantised(**options)
    with pytest.raises(ArgumentError, match="int32 grids"):
        engine.Volume.load_from_numpy(np.zeros((3, 3, 3), int), bg_value=1).quantised(8)
    with pytest.raises(ArgumentError, match="not finite"):
        engine.Volume.load_from_numpy(np.full((3, 3, 3), np.inf)).quantised(8)
    empty = engine.Volume.load_from_numpy(np.zeros((8, 8, 8))).quantised(8)
    assert empty.get_tile_count() == 0 and looked_up(empty, np.zeros((1, 3)), empty.device)[0].tolist() == [0.0]


def test_leaves_that_say_too_many_bits_are_refused():
    data = made(field(), tolerance=0.01).array().numpy().copy()
    data[read_grid(data).first_leaf + 15] = 5 << 5
    with pytest.raises(ArgumentError, match="32 bits for each voxel"):
        engine.Volume(engine.array(data, dtype=engine.uint8))
