"""Builds the topology of a wide bounding volume hierarchy: binned SAH, 8 children per node, leaves of up to 4.

    records ─► expand (breadth first, a few levels) ─► subtrees (one thread each) ─► number leaves and nodes ─► link

A record is a primitive as 8 words (lower x y z, number, −upper x y z, 0), so that the union of boxes is one minimum;
ranges of records are partitioned in place (Wald 2007, "On fast construction of SAH-based bounding volume hierarchies").
A node is made by splitting ranges, largest area first, until there are 8. It is named by its first split position and a
leaf by its first record: both are unique, so that no counters are shared and the result does not depend on the workers.
Nodes end up level by level, which is what a refit wants. Boxes are not computed here: the first refit does it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.compiler import lang as k
from engine.compiler.values import vector
from engine.context import array, empty, full, launch
from engine.kernels.scan import Scan
from engine.kernels.segments import compact
from engine.kernels.sort import RadixSort

vec8: Any = vector(length=8, dtype=k.float32)

WIDTH = 8  # children of a node
LEAF = 4  # primitives of a leaf
MAX_PRIMITIVES = 1 << 26  # what the depth below is enough for, and what leaves room for 8 words of each in 31 bits
SAH_DEPTH = 16  # levels that the surface area heuristic may use; below them ranges are halved
MAX_DEPTH = 26  # levels of nodes: SAH_DEPTH, and what halving 2^26 primitives takes
STACK = 7 * MAX_DEPTH + 2  # entries that a traversal needs: it leaves at most 7 siblings behind on each level
BINS = 16
PARALLEL = 4096  # from this many primitives on, subtrees are built by several workers
SPREAD = 16  # threads from one subtree to the next: a worker claims that many threads at a time
EMPTY = -(2**31)  # in place of a child


@k.func
def half_area(box: vec8) -> float:
    """Half the surface of a box (lower, ·, −upper, ·)."""
    x = -(box[4] + box[0])
    y = -(box[5] + box[1])
    z = -(box[6] + box[2])
    return x * y + y * z + z * x


@k.func
def bin_of(words: k.array(dtype=float), i: int, axis: int, start: float, scale: float, bins: int) -> int:
    """The bin of a record's centre along an axis."""
    center = words[8 * i + axis] - words[8 * i + axis + 4]
    return min(int((center - start) * scale), bins - 1)


@k.func
def count_bins(words: k.array(dtype=float), first: int, last: int, axis: int, start: float, scale: float, bins: int,
               counts: k.fixedarray(shape=BINS, dtype=int),
               boxes: k.fixedarray(shape=8 * BINS, dtype=float)):  # fmt: skip
    """Primitives and box of each bin."""
    for b in range(bins):
        counts[b] = 0
        for c in range(8):
            boxes[8 * b + c] = k.inf
    for i in range(first, last):
        b = bin_of(words, i, axis, start, scale, bins)
        counts[b] += 1
        for c in range(8):
            boxes[8 * b + c] = k.select_min(words[8 * i + c], boxes[8 * b + c])


@k.func
def best_split(bins: int, counts: k.fixedarray(shape=BINS, dtype=int),
               boxes: k.fixedarray(shape=8 * BINS, dtype=float)) -> int:  # fmt: skip
    """First bin of the right side of the cheapest split, 0 if there is none. A leaf of 4 costs as much as one of 1."""
    right_cost = k.zeros(shape=BINS, dtype=float)
    box = vec8(k.inf)
    n = 0
    for step in range(bins - 1):
        b = bins - 1 - step
        for c in range(8):
            box[c] = k.select_min(boxes[8 * b + c], box[c])
        n += counts[b]
        right_cost[b] = half_area(box) * float((n + 3) // 4) if n > 0 else k.inf
    best = 0
    best_cost = float(k.inf)
    box = vec8(k.inf)
    n = 0
    for b in range(bins - 1):
        for c in range(8):
            box[c] = k.select_min(boxes[8 * b + c], box[c])
        n += counts[b]
        if n > 0:
            cost = half_area(box) * float((n + 3) // 4) + right_cost[b + 1]
            if cost < best_cost:
                best_cost = cost
                best = b + 1
    return best


@k.func
def partition(words: k.array(dtype=float), first: int, last: int, axis: int, start: float, scale: float, bins: int,
              split: int) -> int:  # fmt: skip
    """Moves the records of the bins below `split` to the front; returns where the others begin."""
    i = first
    j = last - 1
    while i <= j:
        if bin_of(words, i, axis, start, scale, bins) < split:
            i += 1
        else:
            for c in range(8):
                other = words[8 * j + c]
                words[8 * j + c] = words[8 * i + c]
                words[8 * i + c] = other
            j -= 1
    return i


@k.func
def range_area(words: k.array(dtype=float), first: int, last: int) -> float:
    box = vec8(k.inf)
    for i in range(first, last):
        for c in range(8):
            box[c] = k.select_min(words[8 * i + c], box[c])
    return half_area(box)


@k.func
def split_range(words: k.array(dtype=float), first: int, last: int, halve: bool) -> int:
    """Splits the records first … last − 1 in place; returns the position of the split, between the two."""
    middle = (first + last) // 2
    if halve:
        return middle
    low = vec8(k.inf)  # of the doubled centres, and of their negatives
    for i in range(first, last):
        for c in range(3):
            center = words[8 * i + c] - words[8 * i + c + 4]
            low[c] = k.select_min(center, low[c])
            low[c + 4] = k.select_min(-center, low[c + 4])
    size = k.vec3(-low[4] - low[0], -low[5] - low[1], -low[6] - low[2])
    axis = 0
    start = low[0]
    extent = size[0]
    if size[1] > extent:
        axis = 1
        start = low[1]
        extent = size[1]
    if size[2] > extent:
        axis = 2
        start = low[2]
        extent = size[2]
    bins = BINS if last - first >= 32 else BINS // 2
    scale = float(bins) / extent
    if not (extent > 0.0 and scale < k.inf):
        return middle
    counts = k.zeros(shape=BINS, dtype=int)
    boxes = k.zeros(shape=8 * BINS, dtype=float)
    count_bins(words, first, last, axis, start, scale, bins, counts, boxes)
    split = best_split(bins, counts, boxes)
    if split == 0:
        return middle
    at = partition(words, first, last, axis, start, scale, bins, split)
    return at if first < at and at < last else middle


@k.func
def expand(words: k.array(dtype=float), first: int, last: int, depth: int,
           begin: k.fixedarray(shape=9, dtype=int)):  # fmt: skip
    """Splits a range into up to 8, in order in begin[0] … begin[n]; returns (n, the name of the node)."""
    area = k.zeros(shape=8, dtype=float)
    begin[0] = first
    begin[1] = last
    n = 1
    name = 0
    halve = depth >= SAH_DEPTH
    area[0] = k.inf
    searching = last - first > LEAF
    while searching:
        widest = -1
        most = -1.0
        many = 0
        for c in range(n):
            count = begin[c + 1] - begin[c]
            size = float(count) if halve else area[c]
            if count > LEAF and (size > most or (size == most and count > many)):
                widest = c
                most = size
                many = count
        if widest >= 0:
            at = split_range(words, begin[widest], begin[widest + 1], halve)
            if n == 1:
                name = at
            for step in range(n - widest):
                c = n - step
                begin[c + 1] = begin[c]
                area[c] = area[c - 1]
            begin[widest + 1] = at
            area[widest] = range_area(words, begin[widest], at)
            area[widest + 1] = range_area(words, at, begin[widest + 2])
            n += 1
        searching = widest >= 0 and n < WIDTH
    return n, name


@k.kernel(shape="thread")
def build_subtrees(
    words: k.array(dtype=float),
    tasks: k.array(dtype=int, ndim=2),
    more: k.array(dtype=int, ndim=2),
    links: k.array(dtype=int, ndim=2),
    depths: k.array(dtype=int),
    leaf_sizes: k.array(dtype=int),
    root: k.array(dtype=int),
    whole: int,
):
    """Task (first, last, place of the name) + depth: makes one node and its tasks (`more`), or the whole subtree."""
    t = k.tid()
    if t % SPREAD == 0:
        task = t // SPREAD
        stack = k.zeros(shape=3 * STACK, dtype=int)
        level = k.zeros(shape=STACK, dtype=int)
        stack[0] = tasks[task, 0]
        stack[1] = tasks[task, 1]
        stack[2] = tasks[task, 2]
        level[0] = tasks[task, 3]
        top = 1 if stack[1] > stack[0] else 0
        while top > 0:
            top -= 1
            place = stack[3 * top + 2]
            depth = level[top]
            begin = k.zeros(shape=9, dtype=int)
            n, name = expand(words, stack[3 * top], stack[3 * top + 1], depth, begin)
            if place >= 0:
                links[place // WIDTH, place % WIDTH] = name
            else:
                root[0] = name
            depths[name] = depth
            for c in range(n):
                count = begin[c + 1] - begin[c]
                if count <= LEAF:
                    leaf_sizes[begin[c]] = count
                    links[name, c] = ~begin[c]
                elif whole == 1:
                    stack[3 * top] = begin[c]
                    stack[3 * top + 1] = begin[c + 1]
                    stack[3 * top + 2] = WIDTH * name + c
                    level[top] = depth + 1
                    top += 1
                else:
                    more[WIDTH * task + c, 0] = begin[c]
                    more[WIDTH * task + c, 1] = begin[c + 1]
                    more[WIDTH * task + c, 2] = WIDTH * name + c
                    more[WIDTH * task + c, 3] = depth + 1
            top = top if whole == 1 else 0


@k.requires(lambda tid, depths, leaf_sizes, is_node, leaf_rank: tid < depths.shape[0] and tid < is_node.shape[0]
    and tid < leaf_sizes.shape[0] and tid < leaf_rank.shape[0])  # fmt: skip
@k.kernel
def mark(depths: k.array(dtype=int), leaf_sizes: k.array(dtype=int), is_node: k.array(dtype=int),
         leaf_rank: k.array(dtype=int)):  # fmt: skip
    i = k.tid()
    is_node[i] = 1 if depths[i] >= 0 else 0
    leaf_rank[i] = 1 if leaf_sizes[i] > 0 else 0


@k.requires(lambda tid, names, depths, keys: tid < names.shape[0] and 0 <= names[tid] and names[tid] < depths.shape[0]
    and tid < keys.shape[0])  # fmt: skip
@k.kernel
def gather_depths(names: k.array(dtype=int), depths: k.array(dtype=int), keys: k.array(dtype=k.uint64)):
    i = k.tid()
    keys[i] = k.uint64(depths[names[i]])


@k.requires(lambda tid, names, rank: tid < names.shape[0] and 0 <= names[tid] and names[tid] < rank.shape[0])
@k.kernel
def rank_nodes(names: k.array(dtype=int), rank: k.array(dtype=int)):
    i = k.tid()
    rank[names[i]] = i


@k.requires(lambda tid, names, links, children: tid < names.shape[0] and 1 <= links.shape[1] and 0 <= names[tid]
    and names[tid] < links.shape[0] and 1 <= children.shape[1] and tid < children.shape[0])  # fmt: skip
@k.kernel
def link_nodes(
    names: k.array(dtype=int),
    links: k.array(dtype=int, ndim=2),
    rank: k.array(dtype=int),
    leaf_rank: k.array(dtype=int),
    leaf_sizes: k.array(dtype=int),
    children: k.array(dtype=int, ndim=2),
    parents: k.array(dtype=int),
):
    """Children by number: a node's own, or ~(4 · leaf + primitives − 1)."""
    i = k.tid()
    for c in range(WIDTH):
        link = links[names[i], c]
        child = EMPTY
        if link >= 0:
            child = rank[link]
            parents[child] = WIDTH * i + c
        elif link != EMPTY:
            child = ~(4 * leaf_rank[~link] + leaf_sizes[~link] - 1)
        children[i, c] = child


@k.requires(lambda tid, leaf_sizes: tid < leaf_sizes.shape[0])
@k.kernel
def list_leaves(
    words: k.array(dtype=float),
    leaf_rank: k.array(dtype=int),
    leaf_sizes: k.array(dtype=int),
    members: k.array(dtype=int, ndim=2),
):
    """The primitives of each leaf, −1 where there are fewer than 4."""
    i = k.tid()
    n = leaf_sizes[i]
    if n > 0:
        for c in range(LEAF):
            members[leaf_rank[i], c] = k.bitcast(words[8 * (i + c) + 3], k.int32) if c < n else -1


@dataclass(frozen=True)
class Topology:
    """Which nodes and primitives are whose children. Node 0 is the root."""

    children: Any  # (nodes, 8) numbers of nodes, ~(4 · leaf + primitives − 1), or EMPTY
    parents: Any  # (nodes,) 8 · node + child, −1 at the root
    members: Any  # (leaves, 4) primitives, −1 where there are fewer
    levels: tuple[int, ...]  # first node of each level, and the number of nodes


def build(records, n: int) -> Topology:
    """The hierarchy of records[:n] (float32, 8 per primitive), which are reordered."""
    device = records.device
    if n > MAX_PRIMITIVES:
        raise ValueError(f"a hierarchy has at most {MAX_PRIMITIVES} primitives, not {n}")
    if n <= LEAF:
        return _single_leaf(records, n)
    links = full((n, WIDTH), EMPTY, dtype=int, device=device)
    depths = full(n, -1, dtype=int, device=device)
    leaf_sizes = full(n, 0, dtype=int, device=device)
    root = full(1, 0, dtype=int, device=device)
    tasks = array([[0, n, -1, 0]], dtype=int, ndim=2, device=device)
    rounds = 0 if n < PARALLEL else 1 if n < WIDTH * PARALLEL else 2
    for r in range(rounds + 1):
        more = full((WIDTH * len(tasks), 4), 0, dtype=int, device=device)
        arguments = [records, tasks, more, links, depths, leaf_sizes, root, int(r == rounds)]
        launch(build_subtrees, SPREAD * len(tasks), inputs=arguments, device=device)
        tasks = more
    return _number(records, n, links, depths, leaf_sizes)


def _number(records, n: int, links, depths, leaf_sizes) -> Topology:
    """Nodes by level, then position; leaves by position."""
    device = records.device
    is_node, leaf_rank = (empty(n + 1, dtype=int, device=device) for _ in range(2))
    launch(mark, n, inputs=[depths, leaf_sizes, is_node, leaf_rank], device=device)
    names, count = empty(n, dtype=int, device=device), empty(1, dtype=int, device=device)
    compact(is_node, names, count, n)
    nodes = int(count.numpy()[0])
    Scan(n, device).run(leaf_rank, leaf_rank, n)
    leaves = int(leaf_rank.numpy()[n])
    keys = empty(nodes, dtype=k.uint64, device=device)
    launch(gather_depths, nodes, inputs=[names, depths, keys], device=device)
    RadixSort(nodes, device).run(keys, names, nodes, 5)
    levels = np.flatnonzero(np.diff(keys.numpy()[:nodes].astype(np.int64), prepend=-1))
    launch(rank_nodes, nodes, inputs=[names, depths], device=device)  # depths are no longer needed
    children = empty((nodes, WIDTH), dtype=int, device=device)
    parents = full(nodes, -1, dtype=int, device=device)
    members = empty((leaves, LEAF), dtype=int, device=device)
    launch(
        link_nodes, nodes, device=device, inputs=[names, links, depths, leaf_rank, leaf_sizes, children, parents]
    )  # fmt: skip
    launch(list_leaves, n, inputs=[records, leaf_rank, leaf_sizes, members], device=device)
    return Topology(children, parents, members, (*levels.tolist(), nodes))


def _single_leaf(records, n: int) -> Topology:
    """A root with one leaf, or with none."""
    device = records.device
    ids = records.numpy().reshape(-1, 8)[:n, 3].view(np.int32)
    members = np.full((1, LEAF), -1, np.int32)
    members[0, :n] = ids
    children = np.full((1, WIDTH), EMPTY, np.int32)
    if n > 0:
        children[0, 0] = ~(n - 1)
    parents = full(1, -1, dtype=int, device=device)
    return Topology(
        array(children, dtype=int, device=device), parents, array(members, dtype=int, device=device), (0, 1)
    )
