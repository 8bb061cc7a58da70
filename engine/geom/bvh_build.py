"""Makes a wide bounding volume hierarchy of a binary tree: 8 children per node, leaves of up to 4 primitives.

Which nodes of the binary tree stay is chosen upward for the least surface area in all (Ylitie, Karras, Laine 2017,
"Efficient incoherent ray traversal on GPUs through compressed wide BVHs"): C(n, k) is the least area of the nodes
below n that are left where at most k nodes stand for n,

    C(n, 1) = area(n) + D(n, 8)    C(n, k) = min(D(n, k), C(n, k − 1))    D(n, k) = min over i of C(l, i) + C(r, k − i)

for its children l and r; leaves are free, since all of them stay. Then the tree is opened level by level from the root,
which numbers its nodes level by level, as a refit wants them, and the leaves of a node in a row. Boxes are not kept:
the first refit computes them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.compiler import lang as k
from engine.compiler.values import vector
from engine.context import array, empty, full, launch
from engine.kernels.scan import Scan

WIDTH = 8  # children of a node
LEAF = 8  # primitives of a leaf
vec8: Any = vector(length=WIDTH, dtype=k.float32)
vec_leaf: Any = vector(length=LEAF, dtype=k.float32)
NODE_ROWS = 8  # of 8 words: a node begins with a cache line, and takes four
NODE_WORDS = NODE_ROWS * WIDTH
CHILDREN, PLACES = 6 * WIDTH, 7 * WIDTH  # where a node's children begin, and the places of the leaves among them
LEAF_WORDS = 10 * LEAF
MAX_PRIMITIVES = 1 << 26  # what leaves room for 8 words of each in 31 bits
MAX_DEPTH = 26  # levels of nodes: what halving 2^26 primitives may take
STACK = 7 * MAX_DEPTH + 2  # entries that a traversal needs: it leaves at most 7 siblings behind on each level
EMPTY = -(2**31)  # in place of a child
LEAST_AREA, MOST_AREA = 1.0e-30, 1.0e30  # that a node counts for: trees without area get few nodes, no sum overflows


@k.func
def leaf_of(child: int) -> int:
    """The number of a leaf that is a child."""
    return ~child // LEAF


@k.func
def leaf_size(child: int) -> int:
    """How many primitives it has."""
    return (~child & (LEAF - 1)) + 1


@k.func
def box_area(box: vec8) -> float:
    """Half the surface of a box (lower, ·, −upper, ·)."""
    x = -(box[4] + box[0])
    y = -(box[5] + box[1])
    z = -(box[6] + box[2])
    return x * y + y * z + z * x


# --- costs, upward ----------------------------------------------------------------------------------------------------
# A link is the number of a node of the binary tree, or ~(LEAF · first record + records − 1). Node n has links 2 n and
# 2 n + 1; how many of k nodes go to its left side, 0 where k − 1 are as good, is in bits 4 k − 8 … of its choice.


@k.func
def leaf_box(records: k.array(dtype=vec8), link: int) -> vec8:
    box = vec8(k.inf)
    for i in range((~link & (LEAF - 1)) + 1):
        row = records[(~link // LEAF) + i]
        for c in range(8):
            box[c] = k.select_min(row[c], box[c])
    return box


@k.func
def weigh(one: vec8, of_one: vec8, other: vec8, of_other: vec8):
    """Box, costs (of 1 … 8 nodes) and choice of a node, from boxes and costs of its left and its right child."""
    box = vec8()
    for c in range(8):
        box[c] = k.select_min(one[c], other[c])
    costs = vec8()
    choice = 0
    for n in range(1, WIDTH):
        best = of_one[0] + of_other[n - 1]
        left = 1
        for i in range(1, n):
            cost = of_one[i] + of_other[n - 1 - i]
            if cost < best:
                best = cost
                left = i + 1
        costs[n] = best
        choice = choice | left << (4 * (n - 1))
    area = box_area(box)
    costs[0] = costs[WIDTH - 1] + (k.select_max(area, LEAST_AREA) if area < MOST_AREA else MOST_AREA)
    for n in range(1, WIDTH - 1):
        if costs[n - 1] < costs[n]:
            costs[n] = costs[n - 1]
            choice = choice & ~(15 << (4 * (n - 1)))
    return box, costs, choice


# --- opening, downward ------------------------------------------------------------------------------------------------


@k.func
def to_left(choices: k.array(dtype=int), link: int, places: int) -> int:
    """How many of at most `places` nodes that stand for a link go to its left side; 0 if it is to be one."""
    out = 0
    if link >= 0:
        choice = choices[link]
        while places > 1 and out == 0:
            out = (choice >> (4 * (places - 2))) & 15
            places -= 1
    return out


@k.kernel(shape="thread", enable_backward=False)
def open_nodes(
    links: k.array(dtype=int),
    choices: k.array(dtype=int),
    roots: k.array(dtype=int),
    start: int,
    children: k.array(dtype=int, ndim=2),
    nodes_below: k.array(dtype=int),
    leaves_below: k.array(dtype=int),
):
    """The links of a level's children, from left to right, and how many of them are nodes, and leaves."""
    t = k.tid()
    link = k.zeros(shape=WIDTH, dtype=int)
    places = k.zeros(shape=WIDTH, dtype=int)
    root = roots[start + t]
    go = (choices[root] >> (4 * (WIDTH - 2))) & 15
    link[0], places[0] = links[2 * root], go
    link[1], places[1] = links[2 * root + 1], WIDTH - go
    n, c = 2, 0
    inner = 0
    while c < n:
        go = to_left(choices, link[c], places[c])
        if go == 0:
            children[start + t, c] = link[c]
            inner += 1 if link[c] >= 0 else 0
            c += 1
        else:
            for step in range(n - 1 - c):
                link[n - step], places[n - step] = link[n - 1 - step], places[n - 1 - step]
            opened = link[c]
            link[c + 1], places[c + 1] = links[2 * opened + 1], places[c] - go
            link[c], places[c] = links[2 * opened], go
            n += 1
    for rest in range(n, WIDTH):
        children[start + t, rest] = EMPTY
    nodes_below[t] = inner
    leaves_below[t] = n - inner


@k.kernel(shape="thread", enable_backward=False)
def number_children(
    roots: k.array(dtype=int),
    start: int,
    first_node: int,
    first_leaf: int,
    node_place: k.array(dtype=int),
    leaf_place: k.array(dtype=int),
    children: k.array(dtype=int, ndim=2),
    parents: k.array(dtype=int),
    leaf_links: k.array(dtype=int),
):
    """Numbers in place of the links of a level's children."""
    t = k.tid()
    node, leaf = first_node + node_place[t], first_leaf + leaf_place[t]
    for c in range(WIDTH):
        link = children[start + t, c]
        if link >= 0:
            children[start + t, c] = node
            roots[node] = link
            parents[node] = WIDTH * (start + t) + c
            node += 1
        elif link != EMPTY:
            leaf_links[leaf] = link
            children[start + t, c] = ~(LEAF * leaf + (~link & (LEAF - 1)))
            leaf += 1


@k.kernel(shape="thread", enable_backward=False)
def place_children(children: k.array(dtype=int, ndim=2), leaf_links: k.array(dtype=int), nodes: k.array(dtype=float)):
    """A node's children, and where the primitives of those begin that are leaves, among all in the order of leaves."""
    i = k.tid()
    for c in range(WIDTH):
        child = children[i, c]
        place = 0
        if child < 0 and child != EMPTY:
            place = ~leaf_links[leaf_of(child)] // LEAF
        nodes[NODE_WORDS * i + CHILDREN + c] = k.bitcast(child, k.float32)
        nodes[NODE_WORDS * i + PLACES + c] = k.bitcast(place, k.float32)


@k.kernel(shape="thread", enable_backward=False)
def place_members(records: k.array(dtype=vec8), leaf_links: k.array(dtype=int), leaves: k.array(dtype=float)):
    """The numbers of a leaf's primitives, −1 where there are fewer."""
    i = k.tid()
    link = ~leaf_links[i]
    words = array(ptr=records.ptr, shape=8 * len(records), dtype=float)
    for c in range(LEAF):
        number = k.bitcast(-1, k.float32)
        if c <= link & (LEAF - 1):
            number = words[8 * (link // LEAF + c) + 3]
        leaves[LEAF_WORDS * i + 9 * LEAF + c] = number


@dataclass(frozen=True)
class Topology:
    """Nodes and leaves with children and members, and no boxes and corners yet. Node 0 is the root."""

    nodes: Any  # (nodes · NODE_WORDS,)
    leaves: Any  # (leaves · LEAF_WORDS,)
    parents: Any  # (nodes,) 8 · node + child, −1 at the root
    levels: tuple[int, ...]  # first node of each level, and the number of nodes


def collapse(records, links, choices, n: int) -> Topology | None:
    """The wide hierarchy of a binary tree over n > LEAF records; None if it is deeper than MAX_DEPTH.

    links, choices: of its nodes; its root is what link 2 n − 2 names.
    """
    device = records.device
    children = empty((n, WIDTH), dtype=int, device=device)
    roots, parents, leaf_links = (empty(n, dtype=int, device=device) for _ in range(3))
    roots[:1].assign(links[2 * n - 2 : 2 * n - 1])
    parents[:1].fill_(-1)
    levels, leaves = [0, 1], 0
    scan = Scan(n, device)
    while levels[-1] > levels[-2]:
        if len(levels) > MAX_DEPTH + 1:
            return None
        start, end = levels[-2:]
        m = end - start
        below = [empty(m + 1, dtype=int, device=device) for _ in range(2)]
        launch(open_nodes, m, inputs=[links, choices, roots, start, children, *below], device=device)
        for counts in below:
            scan.run(counts, counts, m)
        arguments = [roots, start, end, leaves, *below, children, parents, leaf_links]
        launch(number_children, m, inputs=arguments, device=device)
        levels.append(end + int(below[0].numpy()[m]))
        leaves += int(below[1].numpy()[m])
    count = levels[-1]
    nodes = empty(NODE_WORDS * count, dtype=float, device=device)
    places = empty(LEAF_WORDS * leaves, dtype=float, device=device)
    launch(place_children, count, inputs=[children, leaf_links, nodes], device=device)
    launch(place_members, leaves, inputs=[records, leaf_links, places], device=device)
    return Topology(nodes, places, array(parents[:count], dtype=int, device=device), tuple(levels[:-1]))


def single_leaf(records, n: int) -> Topology:
    """A root with one leaf, or with none."""
    device = records.device
    leaf = np.zeros(LEAF_WORDS, np.float32)
    members = leaf[9 * LEAF :].view(np.int32)
    members[:] = -1
    members[:n] = np.ascontiguousarray(records.numpy()[:n, 3]).view(np.int32)
    node = np.zeros(NODE_WORDS, np.float32)
    children = node[CHILDREN:PLACES].view(np.int32)
    children[:] = EMPTY
    if n > 0:
        children[0] = ~(n - 1)
    nodes, leaves = (array(values, dtype=float, device=device) for values in (node, leaf))
    return Topology(nodes, leaves, full(1, -1, dtype=int, device=device), (0, 1))
