"""Work on stretches of an array: run-length encoding, sorting each segment, picking out marked elements."""

from typing import Any

from engine.compiler import lang as k
from engine.context import empty, launch
from engine.kernels.scan import Scan
from engine.kernels.sort import RadixSort, begin_order, gather, unsigned_like

# --- runs of equal values ---------------------------------------------------------------------------------------------


@k.kernel
def mark_first(values: k.array(dtype=Any), marks: k.array(dtype=int)):
    """1 for the first element of each run."""
    i = k.tid()
    first = 1
    if i > 0:
        if values[i] == values[i - 1]:
            first = 0
    marks[i] = first


@k.kernel
def write_runs(
    values: k.array(dtype=Any),
    run_of: k.array(dtype=int),
    run_values: k.array(dtype=Any),
    starts: k.array(dtype=int),
    run_count: k.array(dtype=int),
    n: int,
):
    """run_of counts the runs up to and with each element."""
    i = k.tid()
    run = run_of[i]
    before = 0
    if i > 0:
        before = run_of[i - 1]
    if run > before:
        run_values[run - 1] = values[i]
        starts[run - 1] = i
    if i == n - 1:
        run_count[0] = run
        starts[run] = n


@k.kernel
def write_lengths(starts: k.array(dtype=int), run_count: k.array(dtype=int), lengths: k.array(dtype=int)):
    run = k.tid()
    if run < run_count[0]:
        lengths[run] = starts[run + 1] - starts[run]


def encode_runs(values, run_values, run_lengths, run_count, n: int) -> None:
    """The value and the length of each run of equal neighbours of values[:n], and how many runs there are.

    The outputs hold n elements, `run_count` (int32) one.
    """
    if n == 0:
        run_count.zero_()
        return
    device = values.device
    run_of, starts = empty(n, dtype=int, device=device), empty(n + 1, dtype=int, device=device)
    launch(mark_first, n, inputs=[values, run_of], device=device)
    Scan(n, device).run(run_of, run_of, n, inclusive=True)
    launch(write_runs, n, inputs=[values, run_of, run_values, starts, run_count, n], device=device)
    launch(write_lengths, n, inputs=[starts, run_count, run_lengths], device=device)


# --- sorting within segments ------------------------------------------------------------------------------------------


@k.kernel
def each_alone(groups: k.array(dtype=k.uint32)):
    i = k.tid()
    groups[i] = k.uint32(i)


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
    device, kind = keys.device, unsigned_like(keys.dtype)
    stand_ins, order = empty(n, dtype=kind, device=device), empty(n, dtype=int, device=device)
    launch(begin_order, n, inputs=[keys, stand_ins, order], device=device)
    RadixSort(n, device, kind).run(stand_ins, order, n, 64 if kind is k.uint64 else 32)
    groups, sorted_groups = (empty(n, dtype=k.uint32, device=device) for _ in range(2))
    launch(each_alone, n, inputs=[groups], device=device)
    launch(name_groups, len(starts), inputs=[starts, ends, groups, n], device=device)
    launch(gather, n, inputs=[groups, order, sorted_groups], device=device)
    RadixSort(n, device, k.uint32).run(sorted_groups, order, n, max(1, (n - 1).bit_length()))
    return order


# --- picking out ------------------------------------------------------------------------------------------------------


@k.kernel
def write_marked(places: k.array(dtype=int), positions: k.array(dtype=int), count: k.array(dtype=int), n: int):
    """places counts the marked elements up to and with each one."""
    i = k.tid()
    before = 0
    if i > 0:
        before = places[i - 1]
    if places[i] > before:
        positions[before] = i
    if i == n - 1:
        count[0] = places[i]


def compact(marks, positions, count, n: int) -> None:
    """The positions of the ones among the int32 marks[:n] (0 or 1) in ascending order, and their number in count[0]."""
    if n == 0:
        count.zero_()
        return
    places = empty(n, dtype=int, device=marks.device)
    Scan(n, marks.device).run(marks, places, n, inclusive=True)
    launch(write_marked, n, inputs=[places, positions, count, n], device=marks.device)
