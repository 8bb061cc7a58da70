"""Algorithms on arrays, under Warp's names where it has them: scans, sums, sorts, runs, histograms; a scoped timer.

The arguments are checked here; the work is done by `engine.kernels`. Results do not depend on the number of threads.
"""

from __future__ import annotations

import cProfile
import math
import operator
import time
from types import TracebackType
from typing import Any

import numpy as np

from engine.compiler import types
from engine.compiler.values import transformation
from engine.context import array, copy, empty, get_devices, map, recording
from engine.context.dtypes import resolve
from engine.errors import ArgumentError
from engine.kernels import histogram as histograms
from engine.kernels import reduce, scan, segments, sort

__all__ = [
    "ScopedTimer", "array_cast", "array_inner", "array_scan", "array_sum", "compact", "histogram", "map",
    "radix_sort_keys", "radix_sort_pairs", "runlength_encode", "segmented_reduce", "segmented_sort_pairs",
    "transform_expand",
]  # fmt: skip

_SCANNED = (types.int32, types.int64, types.uint32, types.uint64, types.float32, types.float64)
_COUNTED = (types.int32, types.uint32, types.float32, types.float64)
_KEYS = (types.int32, types.uint32, types.float32, types.int64, types.uint64, types.float64)


def _require(holds: Any, message: str) -> None:
    if not holds:
        raise ArgumentError(message)


def _scalar(a: array) -> types.Scalar:
    """The component type of the elements. Raises ArgumentError for structs."""
    same = types.components(a.element)
    if same is None:
        raise ArgumentError(f"Unsupported data type: {a.element!r}")
    return same[0]


def transform_expand(t: Any) -> Any:
    """The transform of seven numbers: its position, then its quaternion."""
    return transformation(types.float32)(*t)


# --- scans and sums ---------------------------------------------------------------------------------------------------


def array_scan(in_array: array, out_array: array, inclusive: bool = True) -> None:
    """Prefix sums of numbers or vectors: out[i] = in[0] + … + in[i], without in[i] unless `inclusive`.

    Arrays of any shape are taken in C order; `out_array` may be `in_array`. Raises ArgumentError where sizes, types or
    devices differ.
    """
    _require(in_array.device is out_array.device, "In and out array storage devices do not match "
             f"({in_array.device.name} vs {out_array.device.name})")  # fmt: skip
    _require(in_array.size == out_array.size, "In and out array storage sizes do not match "
             f"({in_array.size} vs {out_array.size})")  # fmt: skip
    _require(in_array.element == out_array.element, "In and out array data types do not match "
             f"({in_array.element!r} vs {out_array.element!r})")  # fmt: skip
    supported = isinstance(in_array.element, types.Scalar | types.Vector) and _scalar(in_array) in _SCANNED
    _require(supported, f"Unsupported data type: {in_array.element!r}")
    if in_array.size:
        src, dst = _line(in_array), _line(out_array)
        scan.Scan(len(src), src.device, src.dtype).run(src, dst, len(src), inclusive)


def _line(a: array) -> array:
    """A 1-d view."""
    _require(a.ndim == 1 or a.is_contiguous, "arrays of several dimensions must be contiguous; clone them first")
    return a if a.ndim == 1 else a.flatten()


def array_sum(values: array, out: array | None = None, value_count: int | None = None, axis: int | None = None) -> Any:
    """The sum of float or double numbers, vectors or matrices: of all (of the first `value_count`), or along `axis`.

    Along an axis its extent in the result is 1. Without `axis` and `out` the sum is returned as NumPy shows an element,
    else `out`, which is made where it is not given. The number of elements decides the order of the sum. Raises
    ArgumentError for unfit arrays, IndexError for a wrong axis.
    """
    return _reduced("array_sum", values, None, out, value_count, axis)


def array_inner(
    a: array, b: array, out: array | None = None, count: int | None = None, axis: int | None = None
) -> Any:
    """The inner product of two arrays of float or double numbers, vectors or matrices, as `array_sum` sums."""
    _require(a.device is b.device, f"A and b array storage devices do not match ({a.device.name} vs {b.device.name})")
    _require(a.shape == b.shape, f"array_inner() arguments must have the same shape, got {a.shape} and {b.shape}")
    _require(a.element == b.element, f"A and b array data types do not match ({a.element!r} vs {b.element!r})")
    return _reduced("array_inner", a, b, out, count, axis)


def _reduced(name: str, a: array, b: array | None, out: array | None, count: int | None, axis: int | None) -> Any:
    scalar = _scalar(a)
    _require(scalar in (types.float32, types.float64), f"Unsupported data type: {a.element!r}")
    if axis is not None and not -a.ndim <= axis < a.ndim:
        raise IndexError(f"{name}() axis {axis} is out of bounds for an array of {a.ndim} dimensions")
    at = None if axis is None else axis % a.ndim
    whole = a.size if at is None else a.shape[at]
    n = whole if count is None else operator.index(count)
    _require(0 <= n <= whole, f"{name}() count {n} is not one of 0 … {whole}")
    shape = (1,) if at is None else tuple(1 if d == at else extent for d, extent in enumerate(a.shape))
    element = a.element if b is None else scalar
    dtype = resolve(element)[0]
    if out is not None:
        _require(out.device is a.device, "out storage device should match values array")
        _require(out.element == element, f"out array should have type {element!r}")
        _require(out.shape == shape, f"out array should have shape {shape}")
    result = empty(shape, dtype=dtype, device=a.device) if out is None else out
    target = result if result.is_contiguous else empty(shape, dtype=dtype, device=a.device)
    _sum_into(a, b, target, at, n)
    if target is not result:
        copy(result, target)
    return result.numpy()[0].copy() if out is None and at is None else result


def _sum_into(a: array, b: array | None, target: array, axis: int | None, n: int) -> None:
    """Bring the axis to the end, so that rows are summed; an inner product is that of the components."""
    rows = math.prod(target.shape)
    if not rows or not n:
        target.zero_()
        return
    src, other = _rows(a, axis, rows), None if b is None else _rows(b, axis, rows)
    if other is not None:
        scalar, components = types.components(a.element) or (None, 1)
        src, other = (x.view(scalar).reshape(rows, -1) for x in (src, other))
        n *= components
    reduce.sum_rows(src, target.flatten(), n, other)


def _rows(a: array, axis: int | None, rows: int) -> array:
    if axis is not None and axis != a.ndim - 1:
        a = a.transpose([d for d in range(a.ndim) if d != axis] + [axis])
    return a.contiguous().reshape(rows, -1)


def array_cast(in_array: array, out_array: array, count: int | None = None) -> None:
    """Convert the elements of one array to the type of another: of all, or of the first `count` of 1-d arrays.

    Arrays of one size may differ in shape when one of them is 1-d. Numbers convert as in a kernel. Vectors convert by
    component; where only one side has vectors, their components count as elements of their own.
    """
    _require(in_array.device is out_array.device, "Array storage devices do not match "
             f"({in_array.device.name} vs {out_array.device.name})")  # fmt: skip
    src, dst = in_array, out_array
    if (isinstance(src.element, types.Scalar)) != isinstance(dst.element, types.Scalar):
        src, dst = (x.view(_scalar(x)).flatten() if x.is_contiguous else x for x in (src, dst))
        count = None if count is None else count * (in_array.element != src.element and
                                                    len(types.leaves(in_array.element)) or 1)  # fmt: skip
    if src.ndim > 1 and dst.ndim > 1:
        _require(src.shape == dst.shape, f"Array shapes do not match ({src.shape} vs {dst.shape})")
    if count is not None and max(src.ndim, dst.ndim) > 1:
        raise ArgumentError("Partial cast is not supported for arrays with more than one dimension")
    n = src.size if count is None else count
    fits = n <= src.size and n <= dst.size
    _require(fits, f"Cast count ({n}) exceeds the input size ({src.size}) or output size ({dst.size})")
    if src.shape != dst.shape:
        src, dst = _line(src)[:n], _line(dst)[:n]
    with_type = resolve(dst.element)[0]
    if src.element == dst.element:
        copy(dst, src)
    else:
        map(with_type, src, out=dst)


# --- sorting ----------------------------------------------------------------------------------------------------------


def radix_sort_pairs(keys: array, values: array, count: int, begin_bit: int = 0, end_bit: int | None = None) -> None:
    """Sort the first `count` keys ascending, in place, and move the values along; equal keys keep their order.

    keys: 32- or 64-bit integers or floats; −0 equals 0, and NaN come last. values: any type of 4 or 8 bytes. Bits
    begin_bit … end_bit − 1 of the keys decide (of the bit pattern in which negative numbers come first). As in Warp,
    both arrays hold at least 2 · count elements; the second half stays as it is. Raises ArgumentError for unfit arrays
    or bits.
    """
    _require(keys.device is values.device, "Keys and values array storage devices do not match "
             f"({keys.device.name} vs {values.device.name})")  # fmt: skip
    kinds = f"{keys.element!r}, {values.element!r}"
    for name, a in (("keys", keys), ("values", values)):
        _require(a.is_contiguous, f"radix_sort_pairs() requires a contiguous {name} array, got non-contiguous {name} "
                 f"with data types: {kinds}")  # fmt: skip
    _require(count >= 0, f"count must be non-negative, got {count}")
    if count == 0:
        return
    _require(min(keys.size, values.size) >= 2 * count,
             "Keys and values array storage must be large enough to contain 2*count elements")  # fmt: skip
    wide = types.memory_layout(values.element)[1] in (4, 8)
    _require(keys.element in _KEYS and wide, f"Unsupported keys and values data types: {kinds}")
    _sort(_line(keys), _line(values), count, begin_bit, end_bit)


def radix_sort_keys(keys: array, count: int | None = None, begin_bit: int = 0, end_bit: int | None = None) -> None:
    """Sort the first `count` keys (all of them) ascending, in place, as `radix_sort_pairs` does; no more storage.

    Raises ArgumentError for a type that cannot be sorted, arrays with gaps, and unfit counts or bits.
    """
    count = keys.size if count is None else operator.index(count)
    _require(keys.element in _KEYS, f"Unsupported data type: {keys.element!r}")
    _require(keys.is_contiguous, "radix_sort_keys() requires a contiguous array")
    _require(0 <= count <= keys.size, f"count {count} is not one of 0 … {keys.size}")
    _sort(_line(keys), None, count, begin_bit, end_bit)


def _sort(keys: array, values: array | None, count: int, begin_bit: int, end_bit: int | None) -> None:
    bits = _scalar(keys).bits
    end = bits if end_bit is None else end_bit
    _require(0 <= begin_bit <= end <= bits, f"Invalid radix sort bit range [{begin_bit}, {end}) for {bits}-bit keys")
    moved = None if values is None else values.dtype
    sort.RadixSort(count, keys.device, keys.dtype, moved).run(keys, values, count, end, begin_bit)


def segmented_sort_pairs(keys: array, values: array, count: int, segment_start_indices: array,
                         segment_end_indices: array | None = None) -> None:  # fmt: skip
    """Sort the keys of each segment [start, end) of the first `count`, in place, and move the values along.

    keys: int32 or float32, values: int32. Segments do not overlap; without `segment_end_indices` each ends where the
    next one begins, and the last start is the end only. Storage as for `radix_sort_pairs`. Raises ArgumentError for
    unfit arrays and for a segment that is not within 0 … count; in a graph, such a segment stays as it is.
    """
    if isinstance(count, bool) or not hasattr(count, "__index__"):
        raise TypeError(f"count must be an integer, got {count!r}")
    count = operator.index(count)
    _require(count >= 0, f"count must be non-negative, got {count}")
    _require(count < 2**31, f"count must not exceed {2**31 - 1}, got {count}")
    starts, ends = segment_start_indices, segment_end_indices
    given: dict[str, array] = {"keys": keys, "values": values, "segment_start_indices": starts}
    if ends is not None:
        given["segment_end_indices"] = ends
    _require(all(a.device is keys.device for a in given.values()),
             "Keys, values, and segment index array storage devices must match")  # fmt: skip
    for name, a in given.items():
        _require(a.ndim == 1, f"{name} must be one-dimensional, got {a.ndim} dimensions")
        _require(a.is_contiguous, f"segmented_sort_pairs() requires a contiguous {name} array")
    if ends is None:
        starts, ends = starts[: max(len(starts) - 1, 0)], starts[1:]
    _require(len(starts) == len(ends), "segment_start_indices and segment_end_indices must have the same size "
             f"({len(starts)} vs {len(ends)})")  # fmt: skip
    _require(min(keys.size, values.size) >= 2 * count, "Array storage must be large enough to contain 2*count elements")
    supported = keys.element in (types.int32, types.float32) and values.element == types.int32
    _require(supported, f"Unsupported data type: {keys.element!r}")
    _check_segments(starts, ends, count)
    if count and len(starts):
        order = segments.order_of_segments(keys, count, starts, ends)
        sort.reorder(keys, order, count)
        sort.reorder(values, order, count)


def _check_segments(starts: array, ends: array, count: int) -> None:
    """Now, while the host may look; a graph leaves out bad segments."""
    if recording.captures and recording.current() is not None:
        return
    first, last = starts.numpy(), ends.numpy()
    bad = (first < 0) | (last > count) | (first > last)
    if bad.any():
        s = int(bad.argmax())
        message = f"Invalid segment range at index {s}: [{first[s]}, {last[s]}) is not within 0 … {count}"
        raise ArgumentError(message)


def runlength_encode(values: array, run_values: array, run_lengths: array, run_count: array | None = None,
                     value_count: int | None = None) -> int | None:  # fmt: skip
    """The value and the length of each run of equal neighbours of the first `value_count` integers.

    `run_count` (int32, 1) receives the number of runs, else it is returned. The outputs hold `value_count` elements.
    """
    _require(all(a.device is values.device for a in (run_values, run_lengths)),
             "run_values, run_lengths and values storage devices do not match")  # fmt: skip
    n = values.size if value_count is None else operator.index(value_count)
    _require(n >= 0, f"value_count must be non-negative, got {n}")
    _require(n <= values.size, f"value_count {n} exceeds the {values.size} values")
    _require(min(run_values.size, run_lengths.size) >= n,
             f"Output array storage sizes must be at least equal to value_count ({n})")  # fmt: skip
    _require(values.element == run_values.element, "values and run_values data types do not match "
             f"({values.element!r} vs {run_values.element!r})")  # fmt: skip
    _require(run_lengths.element == types.int32, "run_lengths array must be of type int32")
    if run_count is not None:
        _require(run_count.device is values.device, "run_count storage device does not match other arrays")
        _require(run_count.element == types.int32, "run_count array must be of type int32")
        _require(run_count.size > 0, "run_count array must hold one element")
    scalar = values.element
    _require(isinstance(scalar, types.Scalar) and scalar.is_int, f"Unsupported data type: {values.element!r}")
    counter = empty(1, dtype=int, device=values.device) if run_count is None else run_count
    segments.encode_runs(_line(values), _line(run_values), _line(run_lengths), counter, n)
    return None if run_count is not None else int(counter.numpy()[0])


def segmented_reduce(values: array, segment_start_indices: array, segment_end_indices: array | None = None,
                     op: str = "sum", out: array | None = None) -> array:  # fmt: skip
    """The sum, minimum or maximum (`op`: "sum", "min", "max") of each segment [start, end) of a 1-d array of numbers.

    out: (segments,), made where it is not given. An empty segment sums to 0; its minimum and maximum are the largest
    and the smallest number of the type. NaN do not count for minimum and maximum. Without `segment_end_indices` each
    segment ends where the next one begins. A long segment is shared among threads; blocks of 2048 elements from its
    start are added in ascending order, then their sums: the same bits everywhere. Raises ArgumentError for unfit arrays
    and for a segment that is not within the array; in a graph, such a segment counts as empty.
    """
    starts, ends = segment_start_indices, segment_end_indices
    _require(op in segments.OPERATIONS, f"op must be one of {', '.join(segments.OPERATIONS)}, got {op!r}")
    _require(values.ndim == 1 and values.element in _KEYS, f"Unsupported data type: {values.element!r}")
    for a in (starts, ends):
        fits = a is None or (a.ndim == 1 and a.element == types.int32 and a.device is values.device)
        _require(fits, "segment indices must be 1-d int32 arrays on the device of the values")
    if ends is None:
        starts, ends = starts[: max(len(starts) - 1, 0)], starts[1:]
    _require(len(starts) == len(ends), "segment_start_indices and segment_end_indices must have the same size "
             f"({len(starts)} vs {len(ends)})")  # fmt: skip
    _check_segments(starts, ends, len(values))
    n = len(starts)
    result = empty(n, dtype=values.dtype, device=values.device) if out is None else out
    fits = result.shape == (n,) and result.element == values.element and result.device is values.device
    _require(fits, f"out must be an array of {n} {values.element!r} on the device of the values")
    result.fill_(_nothing(values.element, op))
    if n:
        segments.reduce_segments(values, starts, ends, result, op)
    return result


def _nothing(scalar: Any, op: str) -> Any:
    """What an operation makes of no elements."""
    if op == "sum":
        return 0
    kind = np.dtype(scalar.name)
    low, high = (-np.inf, np.inf) if kind.kind == "f" else (np.iinfo(kind).min, np.iinfo(kind).max)
    return (high if op == "min" else low) if kind.kind == "f" else int(high if op == "min" else low)


def compact(marks: array, positions: array, count: array | None = None) -> int | None:
    """The positions of the int32 marks that are not 0, in ascending order.

    positions: int32, as many elements as marks; those beyond the number found stay as they are. `count` (int32, 1)
    receives the number, else it is returned. Raises ArgumentError for unfit arrays.
    """
    for name, a in (("marks", marks), ("positions", positions), ("count", count)):
        fits = a is None or (a.ndim == 1 and a.element == types.int32 and a.device is marks.device)
        _require(fits, f"{name} must be a 1-d int32 array on the device of the marks")
    _require(len(positions) >= len(marks), f"positions must hold {len(marks)} elements, got {len(positions)}")
    _require(count is None or len(count) > 0, "count must hold one element")
    counter = empty(1, dtype=int, device=marks.device) if count is None else count
    segments.compact(marks, positions, counter, len(marks))
    return None if count is not None else int(counter.numpy()[0])


def histogram(values: array, counts: array, low: float, high: float) -> array:
    """Count values in bins of one width between `low` and `high`; gives `counts`.

    values: int32, uint32, float32 or float64 of any shape. counts: int32 (bins,). Bins and edges are those of
    numpy.histogram for float64: bin b holds edge b ≤ value < edge b + 1, the last one its upper edge, too. What lies
    outside and NaN are not counted. Raises ArgumentError for unfit arrays and unless low < high, both finite.
    """
    _require(values.element in _COUNTED, f"Unsupported data type: {values.element!r}")
    _require(counts.ndim == 1 and counts.element == types.int32 and counts.device is values.device and len(counts) > 0,
             "counts must be a 1-d int32 array on the device of the values, of one bin at least")  # fmt: skip
    low, high = float(low), float(high)
    _require(-np.inf < low < high < np.inf, f"low must be less than high, both finite, got {low} and {high}")
    edges = np.linspace(low, high, len(counts) + 1)
    _require(np.isfinite(high - low) and (np.diff(edges) > 0).all(), f"{len(counts)} bins between {low} and {high} "
             "are too narrow or too wide for float64")  # fmt: skip
    line = _line(values)
    histograms.histogram(line, counts, array(edges, dtype=types.float64, device=values.device), len(line))
    return counts


# --- timing -----------------------------------------------------------------------------------------------------------


class ScopedTimer:
    """`with ScopedTimer("name"):` prints how long a block took, nested blocks indented; `elapsed` is in milliseconds.

    active: False measures nothing. print: False only measures. detailed: also prints a profile of the Python functions.
    dict: receives the time under the name, in a list. synchronize: waits for the devices before and after. report_func:
    called as report_func(self, text) instead of printing. The other arguments are accepted for code written for Warp.
    """

    indent = -1

    def __init__(self, name: str, active: bool = True, print: bool = True, detailed: bool = False,
                 dict: dict[str, Any] | None = None, use_nvtx: bool = False, color: Any = None,
                 synchronize: bool = False, cuda_filter: int = 0, report_func: Any = None,
                 skip_tape: bool = False):  # fmt: skip
        self.name, self.active, self.print, self.detailed = name, active, print, detailed
        self.dict, self.synchronize, self.report_func = dict, synchronize, report_func
        self.elapsed = 0.0
        self.timing_results: list[Any] = []
        if dict is not None:
            dict.setdefault(name, [])

    def _wait(self) -> None:
        for device in get_devices() if self.synchronize else ():
            device.synchronize()

    def __enter__(self) -> ScopedTimer:
        if self.active:
            self._wait()
            ScopedTimer.indent += 1
            self._profile = cProfile.Profile() if self.detailed else None
            self._start = time.perf_counter()
            if self._profile is not None:
                self._profile.enable()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.active:
            return
        if self._profile is not None:
            self._profile.disable()
        self._wait()
        self.elapsed = (time.perf_counter() - self._start) * 1000.0
        if self.dict is not None:
            self.dict[self.name].append(self.elapsed)
        if self._profile is not None:
            self._profile.print_stats(sort="cumtime")
        text = f"{'  ' * ScopedTimer.indent}{self.name} took {self.elapsed:.2f} ms"
        ScopedTimer.indent -= 1
        if self.report_func is not None:
            self.report_func(self, text)
        elif self.print:
            print(text)
