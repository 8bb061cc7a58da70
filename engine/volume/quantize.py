"""Float grids with codes of 4, 8, 16 bits, or of as few bits as a tolerance needs, in place of float32 voxels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.errors import ArgumentError
from engine.volume import layout as at
from engine.volume.check import Bytes, Grid
from engine.volume.layout import layout

FLOAT = 1
KIND_OF_BITS = {4: 13, 8: 14, 16: 15}
BY_LEAF = 16  # the kind whose leaves say how many bits their codes have
Floats = NDArray[np.float32]


def quantised(data: Bytes, grid: Grid, bits: int | None, tolerance: float | None) -> Bytes:
    """The bytes of a grid with the same tree, whose leaves hold codes. What a file's author put behind it is left out.

    A leaf's value is minimum + code · step, of 2^bits values between its least and its largest. Raises ArgumentError.
    """
    if (bits is None) == (tolerance is None) or bits not in (None, *KIND_OF_BITS):
        raise ArgumentError(f"a grid is quantised to 4, 8 or 16 bits, or with a tolerance; got {bits!r}, {tolerance!r}")
    if tolerance is not None and not (np.isfinite(tolerance) and tolerance >= 0.0):
        raise ArgumentError(f"tolerance must be finite and not negative, got {tolerance!r}")
    if grid.kind.code != FLOAT:
        raise ArgumentError(f"float grids can be quantised, not {grid.kind.name} grids")
    spot = layout(grid.kind)
    leaves = data[grid.first_leaf : grid.first_leaf + grid.leaves * spot.leaf].reshape(grid.leaves, spot.leaf)
    values = np.ascontiguousarray(leaves[:, spot.leaf_values :]).view("<f4")
    if not np.isfinite(values).all():
        raise ArgumentError("values that are not finite cannot be quantised")
    if bits is not None:
        logs = np.full(grid.leaves, bits.bit_length() - 1)
    else:
        logs = _fewest_bits(values, float(tolerance or 0.0))
    sizes = at.LEAF_CODES + (64 << logs)
    starts = grid.first_leaf + np.cumsum(sizes) - sizes
    out = np.zeros(grid.first_leaf + int(sizes.sum()), np.uint8)
    out[: grid.first_leaf] = data[: grid.first_leaf]
    for log in np.unique(logs):
        some = np.flatnonzero(logs == log)
        encoded = _leaves(leaves[some], values[some], int(log), bits is None)
        out[starts[some][:, None] + np.arange(encoded.shape[1])] = encoded
    _point_at(out, grid, starts)
    _head(out, KIND_OF_BITS[bits] if bits is not None else BY_LEAF)
    return out


def _codes(values: Floats, log: int) -> tuple[NDArray[np.uint16], Floats, Floats]:
    """(codes (n, 512), minimum (n, 1), step (n, 1)), rounded to the nearest."""
    low = values.min(axis=1, keepdims=True)
    top = (1 << (1 << log)) - 1
    step = ((values.max(axis=1, keepdims=True).astype(np.float64) - low) / top).astype(np.float32)
    codes = np.round((values.astype(np.float64) - low) / np.where(step > 0.0, step, 1.0))
    return np.minimum(codes, top).astype(np.uint16), low, step


def _fewest_bits(values: Floats, tolerance: float) -> NDArray[np.int64]:
    """For each leaf the logarithm of the fewest bits that leave no error above `tolerance`; 4, if none do."""
    logs = np.full(len(values), at.MOST_LOG_BITS)
    for log in range(at.MOST_LOG_BITS - 1, -1, -1):
        codes, low, step = _codes(values, log)
        error = np.abs(codes.astype(np.float64) * step + low - values).max(axis=1, initial=0.0)
        logs[error <= tolerance] = log
    return logs


def _leaves(leaves: Bytes, values: Floats, log: int, own_bits: bool) -> Bytes:
    """Leaves with codes of 2^log bits: box, flags and mask as they were."""
    codes, low, step = _codes(values, log)
    out = np.zeros((len(leaves), at.LEAF_CODES + (64 << log)), np.uint8)
    out[:, :80] = leaves[:, :80]
    if own_bits:
        out[:, at.LEAF_FLAGS + 3] = out[:, at.LEAF_FLAGS + 3] & 31 | log << 5
    out[:, at.LEAF_MINIMUM : at.LEAF_CODES - 8] = np.hstack([low, step]).astype("<f4").view(np.uint8)
    active = np.unpackbits(leaves[:, at.LEAF_MASK : at.LEAF_MASK + 64], axis=1, bitorder="little") == 1
    out[:, at.LEAF_CODES - 8 : at.LEAF_CODES] = _statistics(codes, active).astype("<u2").view(np.uint8)
    if log >= 3:
        packed = codes.astype("<u1" if log == 3 else "<u2").view(np.uint8)
    else:
        each = (codes[:, :, None] >> np.arange(1 << log, dtype=np.uint16) & 1).astype(np.uint8)
        packed = np.packbits(each.reshape(len(codes), -1), axis=1, bitorder="little")
    out[:, at.LEAF_CODES :] = packed
    return out


def _statistics(codes: NDArray[np.uint16], active: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Least, largest, average and deviation of the active voxels' codes, (n, 4)."""
    c = codes.astype(np.float64)
    some = active.any(axis=1)
    count = np.maximum(active.sum(axis=1), 1)
    mean = (c * active).sum(axis=1) / count
    deviation = np.sqrt((((c - mean[:, None]) * active) ** 2).sum(axis=1) / count)
    low, high = np.where(active, c, np.inf).min(axis=1), np.where(active, c, 0.0).max(axis=1)
    return np.round(np.stack([np.where(some, low, 0.0), high, mean, deviation], axis=1))


def _point_at(out: Bytes, grid: Grid, starts: NDArray[np.int64]) -> None:
    """Makes the lower nodes name the leaves where they lie now."""
    spot = layout(grid.kind)
    rows = out[grid.first_lower : grid.first_lower + grid.lowers * spot.lower].reshape(grid.lowers, spot.lower)
    has = np.unpackbits(rows[:, at.LOWER_CHILDREN : at.LOWER_CHILDREN + at.LOWER_COUNT // 8], axis=1, bitorder="little")
    node, place = np.nonzero(has)
    entries = rows[:, spot.lower_table :].reshape(grid.lowers, at.LOWER_COUNT, spot.stride)
    own = grid.first_lower + node * spot.lower
    reference = np.ascontiguousarray(entries[node, place, :8]).view("<i8").reshape(-1)
    number = (own + reference - grid.first_leaf) // spot.leaf
    entries[node, place, :8] = (starts[number] - own).astype("<i8").view(np.uint8).reshape(-1, 8)


def _head(out: Bytes, code: int) -> None:
    """Type, size and place of a grid that is alone, without a checksum or anything behind it."""
    for offset, value, dtype in (
        (at.CHECKSUM_AT, 2**64 - 1, "<u8"), (at.INDEX_AT, 0, "<u4"), (at.COUNT_AT, 1, "<u4"),
        (at.SIZE_AT, len(out), "<u8"), (at.TYPE_AT, code, "<u4"), (at.BLIND_AT, len(out), "<u8"),
        (at.BLIND_COUNT_AT, 0, "<u4"),
    ):  # fmt: skip
        raw = np.array([value], dtype).view(np.uint8)
        out[offset : offset + len(raw)] = raw
