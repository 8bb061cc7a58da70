"""`Volume`: a sparse grid of voxels that kernels sample, read from and written to NanoVDB files."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.compiler import lang as k
from engine.compiler import types
from engine.compiler.values import names, type_of
from engine.context import array, empty
from engine.errors import ArgumentError
from engine.volume import layout as at
from engine.volume import sample
from engine.volume.assemble import Ints, assemble, voxel_tiles
from engine.volume.check import Bytes, read_grid, wrong
from engine.volume.layout import KINDS, Kind, layout
from engine.volume.nvdb_file import read_file, write_file
from engine.volume.quantize import quantised

KIND_OF = {types.of_annotation(kind.dtype): kind for kind in KINDS.values() if kind.dtype is not None
           and kind.leaf in ("values", "bits")}  # fmt: skip


class GridInfo(NamedTuple):
    """What a volume's header says."""

    name: str
    size_in_bytes: int
    grid_index: int
    grid_count: int
    type_str: str
    translation: Any  # vec3, world
    transform_matrix: Any  # mat33, index -> world


class FeatureArrayInfo(NamedTuple):
    """Data that a file's author put behind a grid."""

    name: str
    ptr: int
    value_size: int
    value_count: int
    type_str: str


class Volume:
    """A sparse grid of voxels for the `volume_*` functions: `.id` is what kernels take as a uint64.

    data: array of uint8, a NanoVDB grid (others may follow, see `load_next_grid`); `copy=False` keeps the array, whose
    tree must not be written to. Most volumes come from `load_from_nvdb`, `load_from_numpy`, `allocate`,
    `allocate_by_tiles` or `allocate_by_voxels`. Raises ArgumentError for bytes that are no grid.
    """

    CLOSEST, LINEAR = sample.CLOSEST, sample.LINEAR

    def __init__(self, data: Any, copy: bool = True):
        if not isinstance(data, array) or types.of_annotation(data.dtype) != types.uint8 or data.ndim != 1:
            raise ArgumentError("a Volume is made of a one-dimensional array of uint8")
        if not copy and (not data.is_contiguous or data.ptr % 8):
            raise ArgumentError("the bytes of a Volume must be contiguous and start at a multiple of 8")
        self._open(array(data.numpy(), dtype=k.uint8, device=data.device) if copy else data, data.numpy())

    def _open(self, data: Any, host: Bytes) -> None:
        """Over grids in the device's memory, whose bytes are `host`."""
        self._grid, self.device, self._data = read_grid(host), data.device, data
        self._handle = empty(1, dtype=sample.Grid, device=self.device)
        self._handle.assign([self._description()])

    def _description(self) -> Any:
        """The handle's content."""
        g, spot = self._grid, layout(self._grid.kind)
        words = array(ptr=self._data.ptr, shape=g.size // 8, dtype=k.uint64, device=self.device)
        inverse = np.linalg.inv(g.matrix) if np.linalg.det(g.matrix) else np.full((3, 3), np.nan)
        return sample.Grid(  # type: ignore[call-arg]
            words=words, root=g.root, background=g.root + spot.background, first_tile=g.root + spot.root,
            first_leaf=g.first_leaf, tiles=g.tiles, tile=spot.tile, tile_value=spot.tile_value, stride=spot.stride,
            upper_table=spot.upper_table, lower_table=spot.lower_table, leaf_values=spot.leaf_values,
            leaf=max(spot.leaf, 1), value=g.kind.value, log_bits=at.LOG_BITS.get(g.kind.leaf, at.PLAIN),
            kind=g.kind.code,
            dense=int(g.kind.code in (at.INDEX, at.INDEX_MASK)), voxels=self.get_voxel_count(),
            to_world=k.mat33(*g.matrix.flat), to_index=k.mat33(*inverse.flat), origin=k.vec3(*g.translation),
            to_world_d=k.mat33d(*g.matrix.flat), to_index_d=k.mat33d(*inverse.flat), origin_d=k.vec3d(*g.translation),
        )  # fmt: skip

    @property
    def id(self) -> int:
        """The handle: an address, which stays the same for the life of the object."""
        return self._handle.ptr

    # --- what there is

    @property
    def dtype(self) -> Any:
        """The type of the values; None for index grids, and for values that kernels cannot read."""
        return self._grid.kind.dtype

    @property
    def is_index(self) -> bool:
        """Whether voxels have numbers for values in arrays, rather than values."""
        return self._grid.kind.code in at.INDEX_KINDS

    def array(self) -> Any:
        """The bytes of the grid and of those that follow it, as an array of uint8; not a copy."""
        return self._data

    def get_grid_info(self) -> GridInfo:
        """Name, size, place in its file, type and transform."""
        g = self._grid
        return GridInfo(g.name, g.size, g.index, g.grids, g.kind.name, k.vec3(*g.translation), k.mat33(*g.matrix.flat))

    def get_voxel_size(self) -> tuple[float, float, float]:
        """The length of a step along each axis of index space, world units."""
        x, y, z = np.linalg.norm(self._grid.matrix, axis=0)
        return float(x), float(y), float(z)

    def get_tile_count(self) -> int:
        """How many blocks of 8³ voxels are stored."""
        return self._grid.leaves

    def get_voxel_count(self) -> int:
        """How many voxels have numbers: all of the tiles, or the active ones of an index grid."""
        if self.is_index:
            return max(self._grid.values - 1, 0)
        return at.LEAF_COUNT * self._grid.leaves

    def get_tiles(self, out: Any = None) -> Any:
        """The lowest voxel of each tile, (tiles, 3) int32, in the order of the voxels' numbers."""
        return self._given(self._tiles().astype(np.int32), out)

    def get_voxels(self, out: Any = None) -> Any:
        """The voxels in the order of their numbers, (voxels, 3) int32, without the whole tiles of an index grid."""
        inside = np.stack(np.meshgrid(*[np.arange(8)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
        voxels = (self._tiles()[:, None, :] + inside).reshape(-1, 3)
        if self.is_index and self._grid.kind.code not in (at.INDEX, at.INDEX_MASK):
            masks = np.ascontiguousarray(self._leaf_bytes()[:, at.LEAF_MASK : at.LEAF_MASK + 64])
            voxels = voxels[np.unpackbits(masks, axis=1, bitorder="little").reshape(-1) == 1]
        return self._given(voxels.astype(np.int32), out)

    def _given(self, values: NDArray[np.int32], out: Any) -> Any:
        if out is None:
            return array(values, dtype=k.int32, device=self.device)
        out.assign(values if out.ndim == 2 else values.reshape(-1, 3))
        return out

    def _leaf_bytes(self) -> Bytes:
        g, spot = self._grid, layout(self._grid.kind)
        if not spot.leaf:
            raise ArgumentError(f"the leaves of a {g.kind.name} grid differ in size: its voxels cannot be listed")
        return self._data.numpy()[g.first_leaf : g.first_leaf + g.leaves * spot.leaf].reshape(g.leaves, spot.leaf)

    def _tiles(self) -> Ints:
        corners = np.ascontiguousarray(self._leaf_bytes()[:, :12]).view("<i4").astype(np.int64)
        return corners & ~7

    # --- data of the file's author

    def get_feature_array_count(self) -> int:
        """How many blocks of other data the grid carries."""
        return len(self._grid.blind)

    def get_feature_array_info(self, feature_index: int) -> FeatureArrayInfo:
        """Name, address, size and type of such a block. Raises ArgumentError for a number that there is not."""
        if not 0 <= feature_index < len(self._grid.blind):
            raise ArgumentError(f"feature array {feature_index} of {len(self._grid.blind)}")
        b = self._grid.blind[feature_index]
        return FeatureArrayInfo(b.name, self._data.ptr + b.start, b.value_size, b.count, b.type_name)

    def feature_array(self, feature_index: int, dtype: Any = None) -> Any:
        """Such a block as an array of `dtype` over the volume's bytes; by default of its declared type, or bytes."""
        info = self.get_feature_array_info(feature_index)
        if dtype is None:
            found = next((kind for kind in KINDS.values() if kind.name == info.type_str), None)
            dtype = found.dtype if found and found.dtype and found.value == info.value_size else k.uint8
        size = types.memory_layout(types.of_annotation(dtype))[1]
        count = info.value_size * info.value_count // size
        return array.over(dtype, "aos", (count,), (size,), info.ptr, 0, self._data.block, self.device)

    # --- files

    @classmethod
    def load_from_nvdb(cls, file_or_buffer: Any, device: Any = None) -> Volume:
        """The first grid of a NanoVDB file: a path, bytes, or an open file. Codecs: none, zip, and blosc with the
        package numcodecs.

        Raises ArgumentError for what is damaged, cut off, or no NanoVDB file of version 32.
        """
        host = read_file(file_or_buffer)
        volume = cls.__new__(cls)
        volume._open(array(host, dtype=k.uint8, device=device), host)
        return volume

    def load_next_grid(self) -> Volume | None:
        """The next grid of the same file; None after the last."""
        g = self._grid
        if g.index + 1 >= g.grids or self._data.size <= g.size:
            return None
        if g.size % 8:
            raise wrong("the next grid does not start at a whole word")
        volume = type(self).__new__(type(self))
        rest = self._data[g.size :]
        volume._open(rest, rest.numpy())
        return volume

    def save_to_nvdb(self, path: Any, codec: str = "none") -> None:
        """Writes this grid and those that follow it to a file; codec: "none", "zip", or "blosc" with
        the package numcodecs.

        Raises ArgumentError unless it is the first grid of its file, and for other codecs.
        """
        write_file(path, self._data.numpy(), codec)

    def quantised(self, bits: int | None = None, *, tolerance: float | None = None) -> Volume:
        """A copy of a float volume whose tiles hold codes of 4, 8 or 16 bits between their least and largest values.

        With `tolerance` each tile has as few bits, 1 to 16, as keep all its voxels within it. Kernels read such volumes
        as floats, `volume_store` leaves them as they are. Raises ArgumentError for other types, and values that are not
        finite.
        """
        data = quantised(self._data.numpy(), self._grid, bits, tolerance)
        volume = type(self).__new__(type(self))
        volume._open(array(data, dtype=k.uint8, device=self.device), data)
        return volume

    # --- new volumes

    @classmethod
    def load_from_numpy(
        cls,
        ndarray: Any,
        min_world: Any = (0.0, 0.0, 0.0),
        voxel_size: Any = 1.0,
        bg_value: Any = 0.0,
        device: Any = None,
        dtype: Any = None,
    ) -> Volume:
        """A volume of an array (nx, ny, nz), or (nx, ny, nz, 3 or 4) of vectors; tiles full of background are left out.

        min_world: where element (0, 0, 0) is. dtype: of the values, bool for one bit each; by default int32 if
        `bg_value` is an int, else float, vec3 or vec4. Raises ArgumentError
        for other shapes and for voxel sizes that are not positive.
        """
        values = np.asarray(ndarray)
        if values.ndim not in (3, 4) or (values.ndim == 4 and values.shape[3] not in (3, 4)):
            raise ArgumentError(f"a volume is made of (nx, ny, nz) numbers or vectors of 3 or 4, not of {values.shape}")
        kind, background = _background(bg_value, values.shape[3] if values.ndim == 4 else 1, dtype)
        matrix = _transform(voxel_size, None)
        scalar, width = types.components(types.of_annotation(kind.dtype)) or (None, 1)
        assert scalar is not None
        blocks = _blocks(values.reshape(*values.shape[:3], width).astype(scalar.numpy), background)
        blank = np.frombuffer(background, scalar.numpy)
        used = np.argwhere((blocks != blank).any(axis=(1, 3, 5, 6)))
        data, order = assemble(kind, used * 8, None, background, matrix, np.asarray(min_world, float))
        volume = cls.__new__(cls)
        spot, g = layout(kind), read_grid(data)
        leaves = data[g.first_leaf :].reshape(-1, spot.leaf)
        picked = blocks.transpose(0, 2, 4, 1, 3, 5, 6)[tuple(used[order].T)]
        picked = np.ascontiguousarray(picked).reshape(len(order), at.LEAF_COUNT * width)
        raw = np.packbits(picked, axis=1, bitorder="little") if kind.code == at.BOOL else picked.view(np.uint8)
        leaves[:, spot.leaf_values : spot.leaf_values + raw.shape[1]] = raw
        volume._open(array(data, dtype=k.uint8, device=device), data)
        return volume

    @classmethod
    def allocate(
        cls,
        min: Any,
        max: Any,
        voxel_size: Any,
        bg_value: Any = 0.0,
        translation: Any = (0.0, 0.0, 0.0),
        points_in_world_space: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> Volume:
        """A volume with all tiles that hold voxels min … max, both included, full of background.

        min, max: voxels, or with `points_in_world_space` places, of which the nearest voxel is taken.
        """
        low, high = np.asarray(min, float), np.asarray(max, float)
        if low.shape != (3,) or high.shape != (3,) or not (np.isfinite(low) & np.isfinite(high)).all():
            raise ArgumentError(f"min and max are three finite numbers each, got {min!r} and {max!r}")
        if points_in_world_space:
            inverse = np.linalg.inv(_transform(voxel_size, None))
            shift = np.asarray(translation, float)
            low, high = inverse @ (low - shift), inverse @ (high - shift)
        first = np.floor(np.round(low) / 8).astype(int)
        last = np.floor(np.round(high) / 8).astype(int)
        if np.prod(np.maximum(last - first + 1, 0).astype(float)) * at.LEAF_COUNT > at.LARGEST:
            raise ArgumentError(f"voxels {min!r} … {max!r} are too many")
        axes = [np.arange(a, b + 1) * 8 for a, b in zip(first, last)]
        tiles = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
        return cls._of_tiles(tiles, _transform(voxel_size, None), bg_value, translation, device, dtype)

    @classmethod
    def allocate_by_tiles(
        cls,
        tile_points: Any,
        voxel_size: Any = None,
        bg_value: Any = 0.0,
        translation: Any = (0.0, 0.0, 0.0),
        device: Any = None,
        transform: Any = None,
        dtype: Any = None,
    ) -> Volume:
        """A volume with the tiles of 8³ voxels around points, full of background.

        tile_points: array (n, 3) or of vectors; integers are voxels, floats places in the world. bg_value: a number, a
        sequence of 3 or 4, or None for an index grid. transform: 3×3, index → world, in place of `voxel_size`. dtype:
        as of `load_from_numpy`.
        """
        device = device or getattr(tile_points, "device", None)
        matrix = _transform(voxel_size, transform)
        voxels = _voxels(tile_points, matrix, translation)
        tiles = np.unique(voxels >> 3, axis=0) << 3
        return cls._of_tiles(tiles, matrix, bg_value, translation, device, dtype)

    @classmethod
    def _of_tiles(
        cls, tiles: Ints, matrix: NDArray[np.float64], bg_value: Any, translation: Any, device: Any, dtype: Any
    ) -> Volume:
        kind, background = _background(bg_value, dtype=dtype)
        data, _order = assemble(kind, tiles, None, background, matrix, np.asarray(translation, float))
        volume = cls.__new__(cls)
        volume._open(array(data, dtype=k.uint8, device=device), data)
        return volume

    @classmethod
    def allocate_by_voxels(
        cls,
        voxel_points: Any,
        voxel_size: Any = None,
        translation: Any = (0.0, 0.0, 0.0),
        device: Any = None,
        transform: Any = None,
    ) -> Volume:
        """An index grid of the voxels at points: integers are voxels, floats places in the world, of which the nearest
        voxel is taken. `volume_sample_index` and `volume_lookup_index` give each voxel a number."""
        device = device or getattr(voxel_points, "device", None)
        matrix = _transform(voxel_size, transform)
        tiles, masks = voxel_tiles(_voxels(voxel_points, matrix, translation))
        kind, background = _background(None)
        data, _order = assemble(kind, tiles, masks, background, matrix, np.asarray(translation, float))
        volume = cls.__new__(cls)
        volume._open(array(data, dtype=k.uint8, device=device), data)
        return volume


def _background(value: Any, width: int = 0, dtype: Any = None) -> tuple[Kind, bytes]:
    """(type of grid, bytes of a value). width: components of the values, if known. Raises ArgumentError."""
    if value is None and dtype is None:
        return KINDS[at.ON_INDEX], bytes(8)
    known = type_of(value) if hasattr(type(value), "ir_type") else None  # a vector of a kernel's type
    numbers = np.atleast_1d(np.asarray([float(x) for x in value] if np.ndim(value) or known else value))
    if width > 1 and len(numbers) == 1:
        numbers = np.repeat(numbers, width)
    dtype = known if dtype is None else types.of_annotation(dtype)
    if dtype is None:
        whole = isinstance(value, int | np.integer) and width <= 1
        dtype = {1: types.int32 if whole else types.float32, 3: types.of_annotation(names.vec3),
                 4: types.of_annotation(names.vec4)}.get(len(numbers))  # fmt: skip
    kind = KIND_OF.get(dtype) if dtype is not None else None
    if kind is None or numbers.ndim != 1 or width not in (0, len(numbers)):
        raise ArgumentError(f"a volume's values are numbers or vectors of 3 or 4, not {value!r}")
    scalar, _count = types.components(types.of_annotation(kind.dtype)) or (types.float32, 1)
    return kind, numbers.astype(scalar.numpy).tobytes()


def _transform(voxel_size: Any, transform: Any) -> NDArray[np.float64]:
    """Index → world, (3, 3). Raises ArgumentError."""
    if (voxel_size is None) == (transform is None):
        raise ArgumentError("a volume takes a voxel_size, or a transform")
    if transform is not None:
        matrix = np.asarray(transform, float).reshape(-1)
        if matrix.shape != (9,) or not np.isfinite(matrix).all() or abs(np.linalg.det(matrix.reshape(3, 3))) == 0.0:
            raise ArgumentError(f"transform must be an invertible 3×3 matrix, got {transform!r}")
        return matrix.reshape(3, 3)
    try:
        sizes = np.asarray([float(x) for x in voxel_size] if np.ndim(voxel_size) else [float(voxel_size)] * 3)
    except (TypeError, ValueError):
        sizes = np.zeros(0)
    if isinstance(voxel_size, str) or sizes.shape != (3,) or not np.isfinite(sizes).all() or sizes.min() <= 0.0:
        raise ArgumentError(f"voxel_size must be a positive number or three of them, got {voxel_size!r}")
    return np.diag(sizes)


def _voxels(points: Any, matrix: NDArray[np.float64], translation: Any) -> Ints:
    """The voxels at points, (n, 3)."""
    values = points.numpy() if isinstance(points, array) else np.asarray(points)
    if values.ndim != 2 or values.shape[1] != 3:
        raise ArgumentError(f"points are (n, 3) numbers, or n vectors of 3, not {values.shape}")
    if not np.issubdtype(values.dtype, np.integer):
        values = (values - np.asarray(translation, float)) @ np.linalg.inv(matrix).T
        if not np.isfinite(values).all() or (len(values) and np.abs(values).max() > 2**31):
            raise ArgumentError("points must be finite, and within 2³¹ voxels")
        values = np.floor(values + 0.5)
    return values.astype(np.int64)


def _blocks(values: NDArray[Any], background: bytes) -> NDArray[Any]:
    """(tiles x, 8, tiles y, 8, tiles z, 8, components): the array, filled up with background to whole tiles."""
    blank = np.frombuffer(background, values.dtype)
    whole = [-(-n // 8) * 8 for n in values.shape[:3]]
    full = np.empty((*whole, values.shape[3]), values.dtype)
    full[:] = blank
    full[: values.shape[0], : values.shape[1], : values.shape[2]] = values
    return full.reshape(whole[0] // 8, 8, whole[1] // 8, 8, whole[2] // 8, 8, values.shape[3])
