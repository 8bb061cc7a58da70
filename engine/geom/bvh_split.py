"""Splits primitives into a binary tree, by a binned surface area heuristic or by Morton codes, and makes it wide.

    records ─► rounds of tasks, each split in two ─► subtrees, a thread each ─► costs, upward ─► wide nodes (bvh_build)

A record is a primitive as 8 words (lower x y z, number, −upper x y z, 0), so that the union of boxes is one minimum.
A range of records that is split is copied to the other of two buffers, each record to both ends of what is left of the
range and one end moved on: no branch depends on the record (Wald 2007, "On fast construction of SAH-based bounding
volume hierarchies", for the bins). A range of n records has at most n − 1 nodes: they take the numbers of its records,
so that no counters are shared, and the tree does not depend on the workers or on where the subtrees begin.
"""

from typing import Any

import numpy as np

from engine.compiler import lang as k
from engine.context import array, empty, full, launch
from engine.geom.bvh_build import (
    LEAF,
    MAX_PRIMITIVES,
    Topology,
    box_area,
    collapse,
    leaf_box,
    single_leaf,
    vec8,
    weigh,
)
from engine.kernels.sort import RadixSort

SAH_DEPTH = 64  # levels that the heuristic may use; below them ranges are halved
DEPTH = SAH_DEPTH + 27  # levels of the binary tree: halving 2^26 primitives takes 26
BINS = 16
PIECE = 512  # records of a subtree on a processor, about
SMALL_PIECE = 64  # and on a GPU, which has more threads
SPREAD = 16  # threads from one task to the next: a worker claims that many threads at a time
BY_CODE, BY_AREA = 0, 1  # ways to split a range
TASK = 6  # words of a task: first, last, 2 · parent + side, depth, buffer, way
CODE_BITS = 30
FEW_BITS, FEW = 24, 1 << 19  # what is as good for so few primitives, and sorted in three passes of four


@k.func
def bin_of(center: float, start: float, scale: float, bins: int) -> int:
    return min(int((center - start) * scale), bins - 1)


@k.func
def unmasked(x: float) -> float:
    """x: LLVM makes a store of a minimum with what was there a masked store, which AMD's processors are slow at."""
    return x + 0.0


@k.func
def doubled_center(row: vec8):
    """(c, −c) for c, twice the centre of a record's box."""
    out = vec8()
    for c in range(4):
        center = row[c] - row[c + 4]
        out[c] = center
        out[c + 4] = -center
    return out


@k.func
def count_bins(rows: k.array(dtype=vec8), first: int, last: int, axis: int, start: float, scale: float, bins: int,
               counts: k.fixedarray(shape=BINS, dtype=int),
               boxes: k.fixedarray(shape=16 * BINS, dtype=float)):  # fmt: skip
    """Primitives and box of each bin."""
    words = array(ptr=rows.ptr, shape=8 * len(rows), dtype=float)
    for b in range(bins):
        counts[b] = 0
        for c in range(16):
            boxes[16 * b + c] = k.inf
    for i in range(first, last):
        b = bin_of(words[8 * i + axis] - words[8 * i + axis + 4], start, scale, bins)
        counts[b] += 1
        row = rows[i]
        at = 16 * b + 8 * (i & 1)  # in turn: neighbours have one bin, and a box would wait for the last one
        for c in range(8):
            boxes[at + c] = unmasked(k.select_min(row[c], boxes[at + c]))
    for b in range(bins):
        for c in range(8):
            boxes[16 * b + c] = unmasked(k.select_min(boxes[16 * b + 8 + c], boxes[16 * b + c]))


@k.func
def best_split(bins: int, counts: k.fixedarray(shape=BINS, dtype=int),
               boxes: k.fixedarray(shape=16 * BINS, dtype=float)) -> int:  # fmt: skip
    """First bin of the right side of the cheapest split, 0 if there is none. A full leaf costs as much as one of 1."""
    right_cost = k.zeros(shape=BINS, dtype=float)
    box = vec8(k.inf)
    n = 0
    for step in range(bins - 1):
        b = bins - 1 - step
        for c in range(8):
            box[c] = k.select_min(boxes[16 * b + c], box[c])
        n += counts[b]
        right_cost[b] = box_area(box) * float((n + LEAF - 1) // LEAF) if n > 0 else k.inf
    best = 0
    best_cost = float(k.inf)
    box = vec8(k.inf)
    n = 0
    for b in range(bins - 1):
        for c in range(8):
            box[c] = k.select_min(boxes[16 * b + c], box[c])
        n += counts[b]
        if n > 0:
            cost = box_area(box) * float((n + LEAF - 1) // LEAF) + right_cost[b + 1]
            if cost < best_cost:
                best_cost = cost
                best = b + 1
    return best


@k.func
def part(rows: k.array(dtype=vec8), into: k.array(dtype=vec8), first: int, last: int, axis: int, start: float,
         scale: float, bins: int, split: int, limits: k.fixedarray(shape=32, dtype=float)) -> int:  # fmt: skip
    """Copies the records of the bins below `split` to the front, the others to the end; returns where these begin.

    limits: of the doubled centres of both sides, like a record's box, in words 0 and 16.
    """
    words = array(ptr=rows.ptr, shape=8 * len(rows), dtype=float)
    for c in range(32):
        limits[c] = k.inf
    left, right = first, last - 1
    for i in range(first, last):
        b = bin_of(words[8 * i + axis] - words[8 * i + axis + 4], start, scale, bins)
        row = rows[i]
        into[left] = row
        into[right] = row
        side = 0 if b < split else 1
        left += 1 - side
        right -= side
        center = doubled_center(row)
        at = 16 * side + 8 * (i & 1)
        for c in range(8):
            limits[at + c] = unmasked(k.select_min(center[c], limits[at + c]))
    for side in range(2):
        for c in range(8):
            limits[16 * side + c] = unmasked(k.select_min(limits[16 * side + c + 8], limits[16 * side + c]))
    return left


@k.func
def split_by_area(rows: k.array(dtype=vec8), into: k.array(dtype=vec8), first: int, last: int, limit: vec8,
                  limits: k.fixedarray(shape=32, dtype=float), counts: k.fixedarray(shape=BINS, dtype=int),
                  boxes: k.fixedarray(shape=16 * BINS, dtype=float)) -> int:  # fmt: skip
    """Splits a range by the heuristic; returns where the right side begins, or `first` if that cannot be done."""
    axis = 0
    start = limit[0]
    extent = -limit[4] - limit[0]
    for c in range(1, 3):
        size = -limit[c + 4] - limit[c]
        if size > extent:
            axis = c
            start = limit[c]
            extent = size
    bins = BINS if last - first >= 32 else BINS // 2
    scale = float(bins) / extent
    at = first
    if extent > 0.0 and scale < k.inf:
        count_bins(rows, first, last, axis, start, scale, bins, counts, boxes)
        split = best_split(bins, counts, boxes)
        if split > 0:
            at = part(rows, into, first, last, axis, start, scale, bins, split, limits)
            at = at if at < last else first
    return at


@k.func
def split_by_code(codes: k.array(dtype=k.uint32), first: int, last: int) -> int:
    """Where the highest bit changes that does in a range of ascending codes; `first` if all are equal."""
    at = first
    differing = codes[first] ^ codes[last - 1]
    if differing != k.uint32(0):
        bit = k.uint32(31) - k.uint32(k.clz(differing))
        low, size = first, last - first  # the first code that has the bit is in (low, low + size]
        wanted = codes[last - 1] >> bit
        while size > 1:
            half = size // 2
            if codes[low + half - 1] >> bit != wanted:
                low += half
                size -= half
            else:
                size = half
        at = low if codes[low] >> bit == wanted else low + 1
    return at


@k.func
def limits_of(rows: k.array(dtype=vec8), first: int, last: int) -> vec8:
    """Of the doubled centres of a range, like a record's box."""
    limits = k.zeros(shape=8, dtype=float)
    for c in range(8):
        limits[c] = k.inf
    for i in range(first, last):
        center = doubled_center(rows[i])
        for c in range(8):
            limits[c] = k.select_min(center[c], limits[c])
    out = vec8()
    for c in range(8):
        out[c] = limits[c]
    return out


@k.func
def split(records: k.array(dtype=vec8), spare: k.array(dtype=vec8), codes: k.array(dtype=k.uint32), first: int,
          last: int, halve: bool, buffer: int, way: int, limit: vec8, limits: k.fixedarray(shape=32, dtype=float),
          counts: k.fixedarray(shape=BINS, dtype=int), boxes: k.fixedarray(shape=16 * BINS, dtype=float)):  # fmt: skip
    """Splits a range; returns where its right side begins, and buffer and way of both sides. limits: of both."""
    for c in range(8):
        limits[c] = limit[c]
        limits[16 + c] = limit[c]
    at = first
    if way == BY_CODE:
        at = split_by_code(codes, first, last)
        if at == first:  # here the codes end
            way = BY_AREA
        elif last - first <= 2 * LEAF and (at - first > LEAF or last - at > LEAF):
            at = (first + last) // 2  # into two leaves, not three
    if way == BY_AREA and at == first and not halve:
        rows = array(ptr=k.where(buffer == 0, records.ptr, spare.ptr), shape=len(records), dtype=vec8)
        into = array(ptr=k.where(buffer == 0, spare.ptr, records.ptr), shape=len(records), dtype=vec8)
        if k.bit_mask(k.less(limit, vec8(k.inf))) == k.uint32(0):  # they are not known
            limit = limits_of(rows, first, last)
        at = split_by_area(rows, into, first, last, limit, limits, counts, boxes)
        if at > first:
            buffer = 1 - buffer
    if at == first:
        at = (first + last) // 2
    return at, buffer, way


@k.func
def weigh_subtree(records: k.array(dtype=vec8), links: k.array(dtype=int), choices: k.array(dtype=int), begin: int,
                  end: int, stack: k.fixedarray(shape=16 * (DEPTH + 1), dtype=float)):  # fmt: skip
    """Choices of the nodes begin … end − 1, each in front of what it holds; box and costs of the first are returned.

    Backwards, each node finds those of its children on a stack, the left one's on top.
    """
    top = 0
    box, costs = vec8(), vec8()
    for step in range(end - begin):
        node = end - 1 - step
        left, right = links[2 * node], links[2 * node + 1]
        one, of_one, top = popped(records, left, stack, top)
        other, of_other, top = popped(records, right, stack, top)
        box, costs, choices[node] = weigh(one, of_one, other, of_other)
        for c in range(8):
            stack[16 * top + c] = box[c]
            stack[16 * top + 8 + c] = costs[c]
        top += 1
    return box, costs


@k.func
def popped(records: k.array(dtype=vec8), link: int, stack: k.fixedarray(shape=16 * (DEPTH + 1), dtype=float), top: int):
    """Box and costs of a link, from the stack if it is a node; and the entries that are left."""
    box, costs = vec8(k.inf), vec8()
    if link >= 0:
        top -= 1
        for c in range(8):
            box[c] = stack[16 * top + c]
            costs[c] = stack[16 * top + 8 + c]
    else:
        box = leaf_box(records, link)
    return box, costs, top


@k.kernel(shape="thread", enable_backward=False)
def split_tasks(
    records: k.array(dtype=vec8),
    spare: k.array(dtype=vec8),
    codes: k.array(dtype=k.uint32),
    tasks: k.array(dtype=int, ndim=2),
    limits: k.array(dtype=vec8),
    more: k.array(dtype=int, ndim=2),
    more_limits: k.array(dtype=vec8),
    links: k.array(dtype=int),
    choices: k.array(dtype=int),
    boxes: k.array(dtype=vec8),
    costs: k.array(dtype=vec8),
    sah_depth: int,
    whole: int,
):
    """Makes one node of each task and two tasks of what it holds (`more`); if `whole`, its nodes and choices."""
    t = k.tid()
    if t % SPREAD == 0:
        task = t // SPREAD
        stack = k.zeros(shape=TASK * (DEPTH + 1), dtype=int)
        held = k.zeros(shape=16 * (DEPTH + 1), dtype=float)
        halves = k.zeros(shape=32, dtype=float)
        counts = k.zeros(shape=BINS, dtype=int)
        bins = k.zeros(shape=16 * BINS, dtype=float)
        for w in range(TASK):
            stack[w] = tasks[task, w]
        limit = limits[task]
        for c in range(8):
            held[c] = limit[c]
        node = stack[0]
        top = 1 if stack[1] > stack[0] else 0
        while top > 0:
            top -= 1
            item = TASK * top
            first, last, place, depth = stack[item], stack[item + 1], stack[item + 2], stack[item + 3]
            buffer, way = stack[item + 4], stack[item + 5]
            if last - first <= LEAF:
                links[place] = ~(LEAF * first + last - first - 1)
                if buffer == 1:
                    for i in range(first, last):
                        records[i] = spare[i]
            else:
                for c in range(8):
                    limit[c] = held[8 * top + c]
                at, buffer, way = split(records, spare, codes, first, last, depth >= sah_depth, buffer, way, limit,
                                        halves, counts, bins)  # fmt: skip
                number = node if whole == 1 else at - 1
                node += 1
                links[place] = number
                for step in range(2):
                    side = 1 - step  # the left side ends up on top
                    begin, end = first if side == 0 else at, at if side == 0 else last
                    if whole == 1:
                        item = TASK * top
                        stack[item], stack[item + 1], stack[item + 2] = begin, end, 2 * number + side
                        stack[item + 3], stack[item + 4], stack[item + 5] = depth + 1, buffer, way
                        for c in range(8):
                            held[8 * top + c] = halves[16 * side + c]
                        top += 1
                    else:
                        here = 2 * task + side
                        more[here, 0], more[here, 1], more[here, 2] = begin, end, 2 * number + side
                        more[here, 3], more[here, 4], more[here, 5] = depth + 1, buffer, way
                        half = vec8()
                        for c in range(8):
                            half[c] = halves[16 * side + c]
                        more_limits[here] = half
        if whole == 1:
            boxes[task], costs[task] = weigh_subtree(records, links, choices, tasks[task, 0], node, held)


@k.kernel(shape="thread", enable_backward=False)
def weigh_tasks(
    records: k.array(dtype=vec8),
    tasks: k.array(dtype=int, ndim=2),
    links: k.array(dtype=int),
    choices: k.array(dtype=int),
    half_boxes: k.array(dtype=vec8),
    half_costs: k.array(dtype=vec8),
    boxes: k.array(dtype=vec8),
    costs: k.array(dtype=vec8),
):
    """Boxes, costs and choices of the nodes that tasks have become, from those of their halves."""
    t = k.tid()
    if tasks[t, 1] - tasks[t, 0] > LEAF:
        node = links[tasks[t, 2]]
        left, right = links[2 * node], links[2 * node + 1]
        one, of_one = half_boxes[2 * t], half_costs[2 * t]
        other, of_other = half_boxes[2 * t + 1], half_costs[2 * t + 1]
        if left < 0:
            one, of_one = leaf_box(records, left), vec8()
        if right < 0:
            other, of_other = leaf_box(records, right), vec8()
        boxes[t], costs[t], choices[node] = weigh(one, of_one, other, of_other)


# --- Morton codes -----------------------------------------------------------------------------------------------------


@k.func
def spread_bits(x: k.uint32) -> k.uint32:
    """Ten bits with two zeros between each and the next."""
    x = (x | (x << k.uint32(16))) & k.uint32(0x030000FF)
    x = (x | (x << k.uint32(8))) & k.uint32(0x0300F00F)
    x = (x | (x << k.uint32(4))) & k.uint32(0x030C30C3)
    return (x | (x << k.uint32(2))) & k.uint32(0x09249249)


@k.kernel(shape="thread", enable_backward=False)
def bound_centers(records: k.array(dtype=vec8), n: int, limits: k.array(dtype=vec8)):
    """Limits of the doubled centres of PIECE records."""
    t = k.tid()
    limits[t] = limits_of(records, PIECE * t, min(PIECE * (t + 1), n))


@k.requires(lambda tid, records, codes, order: tid < records.shape[0] and tid < codes.shape[0]
    and tid < order.shape[0])  # fmt: skip
@k.kernel(enable_backward=False)
def make_codes(records: k.array(dtype=vec8), low: k.vec3, scale: float, last: int, codes: k.array(dtype=k.uint32),
               order: k.array(dtype=int)):  # fmt: skip
    """Where on a curve through a grid of (last + 1)³ cells, at most 1024³, the centre of each primitive lies."""
    i = k.tid()
    row = records[i]
    code = k.uint32(0)
    for c in range(3):
        cell = k.uint32(k.clamp(int((row[c] - row[c + 4] - low[c]) * scale), 0, last))
        code = code | (spread_bits(cell) << k.uint32(2 - c))
    codes[i] = code
    order[i] = i


@k.requires(lambda tid, records, order, into: tid < order.shape[0] and tid < into.shape[0] and 0 <= order[tid]
    and order[tid] < records.shape[0])  # fmt: skip
@k.kernel(enable_backward=False)
def gather_records(records: k.array(dtype=vec8), order: k.array(dtype=int), into: k.array(dtype=vec8)):
    i = k.tid()
    into[i] = records[order[i]]


def sort_by_code(records, n: int, spare) -> Any:
    """Moves the records to `spare`, along a curve; returns their codes, ascending."""
    device = records.device
    bits = FEW_BITS if n <= FEW else CODE_BITS
    limits = empty(-(-n // PIECE), dtype=vec8, device=device)
    launch(bound_centers, len(limits), inputs=[records, n, limits], device=device)
    ends = limits.numpy().min(0)
    least = ends[:3]
    with np.errstate(all="ignore"):
        scale = np.float32(1 << bits // 3) / (-ends[4:7] - least).max()
    codes, order = empty(n, dtype=k.uint32, device=device), empty(n, dtype=int, device=device)
    inputs = [records, k.vec3(*least), float(scale), (1 << bits // 3) - 1, codes, order]
    launch(make_codes, n, inputs=inputs, device=device)
    RadixSort(n, device, dtype=k.uint32).run(codes, order, n, bits)
    launch(gather_records, n, inputs=[records, order, spare], device=device)
    return codes


# --- the whole build --------------------------------------------------------------------------------------------------


def build(records, n: int, constructor: str = "sah") -> Topology:
    """The hierarchy of records[:n], which are reordered; split along Morton codes ("lbvh"), or by areas (any other).

    Where nodes would lie too deep for the stacks of queries, ranges along Morton codes are halved instead.
    """
    if n > MAX_PRIMITIVES:
        raise ValueError(f"a hierarchy has at most {MAX_PRIMITIVES} primitives, not {n}")
    if n <= LEAF:
        return single_leaf(records, n)
    spare = empty(n, dtype=vec8, device=records.device)
    codes = empty(0, dtype=k.uint32, device=records.device)
    if constructor == "lbvh":
        codes = sort_by_code(records, n, spare)
        records, spare = spare, records
    found = collapse(records, *binary_tree(records, spare, n, codes, SAH_DEPTH), n)
    if found is None:
        sort_by_code(records, n, spare)
        found = collapse(spare, *binary_tree(spare, records, n, codes[:0], 0), n)
    assert found is not None
    return found


def binary_tree(records, spare, n: int, codes, sah_depth: int) -> tuple[Any, Any]:
    """Links and choices of a tree over n > LEAF records, for `collapse`. codes: ascending, or none.

    sah_depth: levels below which ranges are halved.
    """
    device = records.device
    links, choices = empty(2 * n, dtype=int, device=device), empty(n, dtype=int, device=device)
    root = 2 * (n - 1)  # the link of a node that there is not
    way = BY_CODE if len(codes) else BY_AREA
    tasks = [array([[0, n, root, 0, 0, way]], dtype=int, ndim=2, device=device)]
    limits = full(1, vec8(k.inf), dtype=vec8, device=device)
    rounds = (n // (PIECE if device.is_cpu else SMALL_PIECE)).bit_length()
    for r in range(rounds + 1):
        here, whole = tasks[-1], r == rounds
        more = full((1 if whole else 2 * len(here), TASK), 0, dtype=int, device=device)
        more_limits, boxes, costs = (empty(m, dtype=vec8, device=device) for m in (len(more), len(here), len(here)))
        given = [records, spare, codes, here, limits, more, more_limits, links, choices, boxes, costs]
        launch(split_tasks, SPREAD * len(here), inputs=[*given, sah_depth, int(whole)], device=device)
        tasks.append(more)
        limits = more_limits
    for done in tasks[-3::-1]:
        above = [empty(len(done), dtype=vec8, device=device) for _ in range(2)]
        launch(weigh_tasks, len(done), inputs=[records, done, links, choices, boxes, costs, *above], device=device)
        boxes, costs = above
    return links, choices
