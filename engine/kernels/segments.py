"""Work on stretches of an array: marked elements, runs of equal ones, sorting and reducing each segment by itself."""

from typing import Any

from engine.compiler import lang as k
from engine.context import copy, empty, indirect, launch
from engine.kernels.scan import Scan
from engine.kernels.sort import RadixSort, gather, order_of

BLOCK = 2048  # elements that one thread handles in ascending order

# --- picking out ------------------------------------------------------------------------------------------------------


@k.requires(lambda tid, marks, counts, n: tid < counts.shape[0] and tid <= n // BLOCK and n <= marks.shape[0])
@k.kernel
def count_marked(marks: k.array(dtype=int), counts: k.array(dtype=int), n: int):
    block = k.tid()
    first = block * BLOCK
    total = 0
    for i in range(first, first + min(BLOCK, n - first)):
        total += k.select(marks[i] != 0, 1, 0)
    counts[block] = total


@k.requires(lambda tid, marks, n: tid <= n // BLOCK and n <= marks.shape[0])
@k.requires(lambda tid, places, positions: tid + 1 < places.shape[0] and 0 <= places[tid]
    and places[tid + 1] <= positions.shape[0])  # fmt: skip
@k.kernel
def write_marked(marks: k.array(dtype=int), places: k.array(dtype=int), positions: k.array(dtype=int), n: int):
    """places[block] counts the marked elements before the block."""
    block = k.tid()
    first = block * BLOCK
    place, end = places[block], places[block + 1]
    for i in range(first, first + min(BLOCK, n - first)):
        # an element that is not marked is written, too, and then written over: a branch here would be guessed wrong
        if place < end:
            positions[place] = i
        place += k.select(marks[i] != 0, 1, 0)


def compact(marks, positions, count, n: int) -> None:
    """The positions of the int32 marks[:n] that are not 0 in ascending order, and their number in count[0]."""
    if n == 0:
        count.zero_()
        return
    device, blocks = marks.device, -(-n // BLOCK)
    places = empty(blocks + 1, dtype=int, device=device)
    launch(count_marked, blocks, inputs=[marks, places, n], device=device)
    Scan(blocks, device).run(places, places, blocks)
    launch(write_marked, blocks, inputs=[marks, places, positions, n], device=device)
    copy(count[:1], places[blocks:])


# --- runs of equal values ---------------------------------------------------------------------------------------------


@k.requires(lambda tid, values, marks: tid < values.shape[0] and tid < marks.shape[0])
@k.kernel
def mark_first(values: k.array(dtype=Any), marks: k.array(dtype=int)):
    """1 for the first element of each run."""
    i = k.tid()
    first = 1
    if i > 0:
        if values[i] == values[i - 1]:
            first = 0
    marks[i] = first


@k.requires(lambda tid, values, starts, run_count, run_values, lengths: tid < starts.shape[0]
    and 1 <= run_count.shape[0] and 0 <= starts[tid] and starts[tid] < values.shape[0] and tid < run_values.shape[0]
    and tid < lengths.shape[0] and (run_count[0] <= tid + 1 or tid + 1 < starts.shape[0]))  # fmt: skip
@k.kernel
def write_runs(
    values: k.array(dtype=Any), starts: k.array(dtype=int), run_count: k.array(dtype=int),
    run_values: k.array(dtype=Any), lengths: k.array(dtype=int), n: int,
):  # fmt: skip
    run = k.tid()
    first, end = starts[run], n
    if run + 1 < run_count[0]:
        end = starts[run + 1]
    run_values[run] = values[first]
    lengths[run] = end - first


def encode_runs(values, run_values, run_lengths, run_count, n: int) -> None:
    """The value and the length of each run of equal neighbours of values[:n], and how many runs there are.

    The outputs hold n elements, `run_count` (int32) one.
    """
    device = values.device
    marks, starts = (empty(n, dtype=int, device=device) for _ in range(2))
    launch(mark_first, n, inputs=[values, marks], device=device)
    compact(marks, starts, run_count, n)
    launch(write_runs, indirect(run_count, n), device=device,
           inputs=[values, starts, run_count, run_values, run_lengths, n])  # fmt: skip


# --- sorting within segments ------------------------------------------------------------------------------------------


@k.requires(lambda tid, groups: tid < groups.shape[0])
@k.kernel
def each_alone(groups: k.array(dtype=k.uint32)):
    i = k.tid()
    groups[i] = k.uint32(i)


@k.requires(lambda tid, starts, ends: tid < starts.shape[0] and tid < ends.shape[0])
@k.kernel
def name_groups(starts: k.array(dtype=int), ends: k.array(dtype=int), groups: k.array(dtype=k.uint32), n: int):
    """The elements of a segment belong to the group that is called by its first position; ranges beyond n are empty."""
    s = k.tid()
    first, last = starts[s], ends[s]
    if first >= 0 and last <= n:
        for i in range(first, last):
            groups[i] = k.uint32(first)


def order_of_segments(keys, n: int, starts, ends):
    """The positions of keys[:n] when each segment [starts[s], ends[s]) is sorted by itself; int32 (n,).

    Segments do not overlap. Two stable sorts: by key, then by group; an element in no segment is a group of its own.
    """
    device, order = keys.device, order_of(keys, n)
    groups, sorted_groups = (empty(n, dtype=k.uint32, device=device) for _ in range(2))
    launch(each_alone, n, inputs=[groups], device=device)
    launch(name_groups, len(starts), inputs=[starts, ends, groups, n], device=device)
    launch(gather, n, inputs=[groups, order, sorted_groups], device=device)
    RadixSort(n, device, k.uint32).run(sorted_groups, order, n, max(1, (n - 1).bit_length()))
    return order


# --- reducing each segment --------------------------------------------------------------------------------------------
# A segment is cut into pieces of BLOCK elements from its start; each piece is combined in ascending order, then
# the pieces of the segment. So one long segment occupies as many threads as many short ones, and the order is fixed.

OPERATIONS = ("sum", "min", "max")


@k.func
def combined(operation: int, a: Any, b: Any):
    """What an operation, by its place in OPERATIONS, makes of two values."""
    result = a + b
    if operation == 1:
        result = k.min(a, b)
    elif operation == 2:
        result = k.max(a, b)
    return result


@k.func
def reduced_range(values: k.array(dtype=Any), first: int, last: int, operation: int):
    """values[first] … values[last - 1] combined; there is at least one."""
    total = values[first]
    for i in range(first + 1, last):
        total = combined(operation, total, values[i])
    return total


@k.requires(lambda tid, starts, ends, pieces: tid < starts.shape[0] and tid < ends.shape[0] and tid < pieces.shape[0])
@k.kernel
def count_pieces(starts: k.array(dtype=int), ends: k.array(dtype=int), pieces: k.array(dtype=int), n: int):
    """Segments that are not within n elements have none."""
    s = k.tid()
    first, last = starts[s], ends[s]
    if first < 0 or last > n or first >= last:
        last = first
    pieces[s] = (last - first) // BLOCK + k.select((last - first) % BLOCK > 0, 1, 0)


@k.requires(lambda tid, partials: tid < partials.shape[0])
@k.kernel
def reduce_pieces(
    values: k.array(dtype=Any), starts: k.array(dtype=int), ends: k.array(dtype=int), pieces: k.array(dtype=int),
    partials: k.array(dtype=Any), segments: int, operation: int,
):  # fmt: skip
    """pieces[s] is the number of pieces of the segments before s."""
    piece = k.tid()
    low, high = 0, segments  # the last segment that begins at or before this piece is in low … high − 1
    while high - low > 1:
        middle = (low + high) // 2
        if pieces[middle] <= piece:
            low = middle
        else:
            high = middle
    first = starts[low] + (piece - pieces[low]) * BLOCK
    partials[piece] = reduced_range(values, first, first + min(BLOCK, ends[low] - first), operation)


@k.func
def piece_of(values: k.array(dtype=Any), start: int, end: int, number: int, partials: k.array(dtype=Any), piece: int,
             operation: int, capacity: int):  # fmt: skip
    """A piece of a segment: that of `reduce_pieces`, where there was room for it; segments that overlap have more."""
    at = piece + number
    total = partials[k.min(at, capacity - 1)]
    if at >= capacity:
        first = start + number * BLOCK
        total = reduced_range(values, first, first + min(BLOCK, end - first), operation)
    return total


@k.requires(lambda tid, pieces: tid < pieces.shape[0])
@k.kernel
def join_pieces(
    values: k.array(dtype=Any), starts: k.array(dtype=int), ends: k.array(dtype=int), pieces: k.array(dtype=int),
    partials: k.array(dtype=Any), out: k.array(dtype=Any), operation: int, capacity: int,
):  # fmt: skip
    s = k.tid()
    piece, last = pieces[s], pieces[s + 1]
    if piece < last:
        total = piece_of(values, starts[s], ends[s], 0, partials, piece, operation, capacity)
        for other in range(1, last - piece):
            more = piece_of(values, starts[s], ends[s], other, partials, piece, operation, capacity)
            total = combined(operation, total, more)
        out[s] = total


def reduce_segments(values, starts, ends, out, operation: str) -> None:
    """out[s] = sum, min or max of values[starts[s]:ends[s]]; out[s] stays where that is empty or not in the array."""
    device, segments = values.device, len(starts)
    capacity = len(values) // BLOCK + segments  # enough for segments that do not overlap
    code = OPERATIONS.index(operation)
    pieces = empty(segments + 1, dtype=int, device=device)
    partials = empty(capacity, dtype=values.dtype, device=device)
    launch(count_pieces, segments, inputs=[starts, ends, pieces, len(values)], device=device)
    Scan(segments, device).run(pieces, pieces, segments)
    given = [values, starts, ends, pieces, partials]
    launch(reduce_pieces, indirect(pieces[segments:], capacity), inputs=[*given, segments, code], device=device)
    launch(join_pieces, segments, inputs=[*given, out, code, capacity], device=device)
