"""Wide bounding volume hierarchies in memory: their layout behind a handle, the boxes of a refit, and `Bvh` over boxes.

    node   56 words: lower x[8] y[8] z[8], upper x[8] y[8] z[8], child[8]     (no child: an inverted box, EMPTY)
    leaf   40 words: first corner x[4] y[4] z[4], second, third, number[4]     (no primitive: corners NaN, number −1)

A child is the number of a node, or ~(4 · leaf + primitives − 1). A box is kept as the triangle (lower, upper, lower),
so that one traversal serves both. A handle is the address of a `Tree` in the device's memory: the uint64 that kernels
get.
"""

from typing import Any

import numpy as np

from engine.compiler import lang as k
from engine.context import array, empty, launch
from engine.context.device import get_device
from engine.errors import ArgumentError
from engine.geom.bvh_build import EMPTY, LEAF, LEAF_WORDS, NODE_WORDS, WIDTH, Topology, vec8
from engine.geom.bvh_split import build

CONSTRUCTORS = ("sah", "median", "lbvh")


@k.struct
class Tree:
    """What stands behind a handle. The arrays of a mesh are empty for a hierarchy of boxes."""

    points: k.array(dtype=k.vec3)
    velocities: k.array(dtype=k.vec3)
    indices: k.array(dtype=int)  # three for each triangle
    nodes: k.array(dtype=float)
    leaves: k.array(dtype=float)
    parents: k.array(dtype=int)  # 8 · node + child of each node; −1 at the root
    moments: k.array(dtype=float)  # for winding numbers; empty without
    slabs: k.array(dtype=float)  # for closest points; empty for a hierarchy of boxes
    groups: k.array(dtype=int)  # of each primitive: the place of its group in `group_ids`; empty without groups
    group_ids: k.array(dtype=int)  # ascending


@k.func
def tree_of(handle: k.uint64) -> Tree:
    trees = array(ptr=handle, shape=1, dtype=Tree)
    return trees[0]


@k.func
def bvh_get_group_root(id: k.uint64, group: int) -> int:
    """What queries take as `root` to find this group only; they find nothing for a group that there is not."""
    root = -2
    if id != k.uint64(0):
        tree = tree_of(id)
        low, high = 0, len(tree.group_ids)
        while low < high:
            middle = (low + high) // 2
            if tree.group_ids[middle] < group:
                low = middle + 1
            else:
                high = middle
        if low < len(tree.group_ids) and tree.group_ids[low] == group:
            root = low
    return root


@k.func
def in_group(tree: Tree, number: int, root: int) -> bool:
    """Whether a primitive belongs to the group of `root`; −1 is all of them."""
    belongs = root == -1
    if root >= 0 and number < len(tree.groups):
        belongs = tree.groups[number] == root
    return belongs


# --- records of the primitives, for the build -------------------------------------------------------------------------


@k.func
def write_record(records: k.array(dtype=vec8), keep: k.array(dtype=int), i: int, lower: k.vec3, upper: k.vec3,
                 usable: bool):  # fmt: skip
    keep[i] = 1 if usable else 0
    record = vec8()
    for c in range(3):
        record[c] = lower[c]
        record[c + 4] = -upper[c]
    record[3] = k.bitcast(i, k.float32)
    records[i] = record


@k.requires(lambda tid, records, keep: tid < records.shape[0] and tid < keep.shape[0])
@k.kernel
def record_triangles(
    points: k.array(dtype=k.vec3),
    indices: k.array(dtype=int),
    records: k.array(dtype=vec8),
    keep: k.array(dtype=int),
):
    """Triangles whose corners are not finite are not kept."""
    i = k.tid()
    a, b, c = points[indices[3 * i]], points[indices[3 * i + 1]], points[indices[3 * i + 2]]
    lower = k.min(k.min(a, b), c)
    upper = k.max(k.max(a, b), c)
    sum = a + b + c
    usable = k.isfinite(sum[0]) and k.isfinite(sum[1]) and k.isfinite(sum[2])
    write_record(records, keep, i, lower, upper, usable)


@k.requires(lambda tid, lowers, uppers, records, keep: tid < lowers.shape[0] and tid < uppers.shape[0]
    and tid < records.shape[0] and tid < keep.shape[0])  # fmt: skip
@k.kernel
def record_boxes(
    lowers: k.array(dtype=k.vec3),
    uppers: k.array(dtype=k.vec3),
    records: k.array(dtype=vec8),
    keep: k.array(dtype=int),
):
    """Boxes that are not finite, or inverted, are not kept."""
    i = k.tid()
    lower, upper = lowers[i], uppers[i]
    usable = True
    for c in range(3):
        usable = usable and k.isfinite(lower[c]) and k.isfinite(upper[c]) and lower[c] <= upper[c]
    write_record(records, keep, i, lower, upper, usable)


# --- boxes ------------------------------------------------------------------------------------------------------------


@k.func
def corner_or_none(points: k.array(dtype=k.vec3), indices: k.array(dtype=int), triangle: int, which: int) -> k.vec3:
    out = k.vec3(k.nan)
    if triangle >= 0:
        out = points[indices[3 * triangle + which]]
    return out


@k.func
def box_corner_or_none(corners: k.array(dtype=k.vec3), box: int) -> k.vec3:
    out = k.vec3(k.nan)
    if box >= 0:
        out = corners[box]
    return out


@k.func
def write_rows(leaves: k.array(dtype=float), row: int, a: k.vec3, b: k.vec3, c: k.vec3, d: k.vec3):
    """The corner of each of a leaf's four primitives, coordinate by coordinate."""
    rows = array(ptr=leaves.ptr, shape=len(leaves) // LEAF, dtype=k.vec4)
    for axis in range(3):
        rows[row + axis] = k.vec4(a[axis], b[axis], c[axis], d[axis])


@k.func
def members_of(leaves: k.array(dtype=float), leaf: int) -> k.vec4i:
    """The numbers of a leaf's primitives."""
    rows = array(ptr=leaves.ptr, shape=len(leaves) // LEAF, dtype=k.vec4i)
    return rows[LEAF_WORDS // LEAF * leaf + 9]


@k.kernel(shape="thread", enable_backward=False)
def fill_triangles(
    points: k.array(dtype=k.vec3),
    indices: k.array(dtype=int),
    leaves: k.array(dtype=float),
):
    leaf = k.tid()
    members = members_of(leaves, leaf)
    a, b, c, d = members[0], members[1], members[2], members[3]
    for which in range(3):
        write_rows(leaves, LEAF_WORDS // LEAF * leaf + 3 * which, corner_or_none(points, indices, a, which),
                   corner_or_none(points, indices, b, which), corner_or_none(points, indices, c, which),
                   corner_or_none(points, indices, d, which))  # fmt: skip


@k.kernel(shape="thread", enable_backward=False)
def fill_boxes(
    lowers: k.array(dtype=k.vec3),
    uppers: k.array(dtype=k.vec3),
    leaves: k.array(dtype=float),
):
    leaf = k.tid()
    members = members_of(leaves, leaf)
    a, b, c, d = members[0], members[1], members[2], members[3]
    row = LEAF_WORDS // LEAF * leaf
    lower_a, lower_b = box_corner_or_none(lowers, a), box_corner_or_none(lowers, b)
    lower_c, lower_d = box_corner_or_none(lowers, c), box_corner_or_none(lowers, d)
    write_rows(leaves, row, lower_a, lower_b, lower_c, lower_d)
    write_rows(leaves, row + 3, box_corner_or_none(uppers, a), box_corner_or_none(uppers, b),
               box_corner_or_none(uppers, c), box_corner_or_none(uppers, d))  # fmt: skip
    write_rows(leaves, row + 6, lower_a, lower_b, lower_c, lower_d)


@k.kernel
def fit_nodes(nodes: k.array(dtype=float), leaves: k.array(dtype=float), start: int):
    """The boxes of one level's children; numbers that are NaN do not count."""
    i = start + k.tid()
    for c in range(WIDTH):
        child = k.bitcast(nodes[NODE_WORDS * i + 6 * WIDTH + c], k.int32)
        for axis in range(3):
            lower = float(k.inf)
            upper = float(-k.inf)
            if child >= 0:
                at = NODE_WORDS * child + WIDTH * axis
                for s in range(WIDTH):
                    lower = k.select_min(nodes[at + s], lower)
                    upper = k.select_max(nodes[at + 3 * WIDTH + s], upper)
            elif child != EMPTY:
                at = LEAF_WORDS * (~child >> 2) + LEAF * axis
                for corner in range(3):
                    for s in range(LEAF):
                        x = leaves[at + 12 * corner + s]
                        lower = k.select_min(x, lower)
                        upper = k.select_max(x, upper)
            nodes[NODE_WORDS * i + WIDTH * axis + c] = lower
            nodes[NODE_WORDS * i + WIDTH * (axis + 3) + c] = upper


class Hierarchy:
    """Topology, boxes and handle of a set of primitives. `skipped` counts those that are not finite and left out."""

    def __init__(self, device, count: int):
        self.device, self.count, self.skipped = device, count, 0
        self.topology: Topology | None = None
        self.handle = empty(1, dtype=Tree, device=device)
        self.moments: Any = None
        self.slabs: Any = None
        self.groups: Any = None
        self.group_ids: Any = None

    def rebuild(self, record, fill, sources, fields, constructor: str | None) -> None:
        """Builds anew. `record` and `fill` are kernels that read the arrays `sources`; `fields` go into the handle."""
        n, device = self.count, self.device
        records = empty(max(n, 1), dtype=vec8, device=device)
        keep = empty(max(n, 1), dtype=int, device=device)
        if n > 0:
            launch(record, n, inputs=[*sources, records, keep], device=device)
        kept = keep.numpy()[:n] != 0
        self.skipped = n - int(kept.sum())
        if self.skipped:
            usable = np.append(records.numpy()[:n][kept], np.zeros((1, 8), np.float32), axis=0)
            records = array(usable, dtype=vec8, device=device)
        self.topology = topology = build(records, n - self.skipped, constructor or "sah")
        self.nodes, self.leaves = topology.nodes, topology.leaves
        self.fields = fields
        self.point_at()
        self.refit(fill, sources)

    def take_groups(self, groups: Any) -> None:
        """Notes the group of each primitive, whose numbers are copied; None: there are none. Raises ArgumentError."""
        if groups is None:
            return
        check_array("groups", groups, k.int32, self.device)
        if len(groups) != self.count:
            raise ArgumentError(f"{len(groups)} groups for {self.count} primitives")
        ids, places = np.unique(groups.numpy(), return_inverse=True)
        self.group_ids = array(ids, dtype=int, device=self.device)
        self.groups = array(places.reshape(-1).astype(np.int32), dtype=int, device=self.device)

    def point_at(self) -> None:
        """Writes the handle; whatever it names is kept alive by this object."""
        assert self.topology is not None
        tree = Tree(  # type: ignore[call-arg]
            nodes=self.nodes, leaves=self.leaves, parents=self.topology.parents, moments=self.moments, slabs=self.slabs,
            groups=self.groups, group_ids=self.group_ids, **self.fields
        )  # fmt: skip
        self.handle.assign([tree])

    def refit(self, fill, sources) -> None:
        """New boxes for primitives that have moved; the topology stays."""
        device = self.device
        launch(fill, len(self.leaves) // LEAF_WORDS, inputs=[*sources, self.leaves], device=device)
        for first, end in self.levels_upward():
            launch(fit_nodes, end - first, inputs=[self.nodes, self.leaves, first], device=device)

    def levels_upward(self) -> list[tuple[int, int]]:
        """(first node, end) of each level, the deepest first."""
        assert self.topology is not None
        levels = self.topology.levels
        return list(zip(levels[:-1], levels[1:], strict=True))[::-1]

    @property
    def nbytes(self) -> int:
        """Bytes that the hierarchy takes, what a refit needs included."""
        assert self.topology is not None
        slabs = 0 if self.slabs is None else self.slabs.size
        return 4 * (self.nodes.size + self.leaves.size + slabs + self.topology.parents.size)


def check_array(name: str, value: Any, dtype: Any, device: Any = None) -> None:
    """Raises ArgumentError unless `value` is a gapless 1-d array of `dtype` on `device`."""
    if not isinstance(value, array):
        raise ArgumentError(f"{name} must be an engine array, got {type(value).__name__}")
    if value.element != dtype.ir_type if hasattr(dtype, "ir_type") else value.element != dtype:
        raise ArgumentError(f"{name} must have dtype {dtype!r}, got {value.element!r}")
    if value.ndim != 1 or not value.is_contiguous:
        raise ArgumentError(f"{name} must be one-dimensional and contiguous, got shape {value.shape}")
    if device is not None and value.device is not device:
        raise ArgumentError(f"{name} is on {value.device.name}, the other arrays on {device.name}")


def check_constructor(constructor: str | None, leaf_size: int | None) -> None:
    """The names of builders are Warp's. Raises ValueError for others, and for leaves of nothing."""
    if constructor is not None and constructor not in CONSTRUCTORS:
        raise ValueError(f"unknown constructor {constructor!r}: one of {', '.join(CONSTRUCTORS)}")
    if leaf_size is not None and leaf_size < 1:
        raise ValueError(f"leaf_size must be positive, got {leaf_size}")


class Bvh:
    """A hierarchy of axis-aligned boxes for the `bvh_query_*` functions: `.id` is what kernels take as a uint64.

    lowers, uppers: arrays of vec3 (n,), which are kept: write to them and call `refit` (same topology) or `rebuild`.
    Boxes that are not finite or inverted are left out, `skipped` counts them. groups: array of int32 (n,), which is
    copied: `bvh_get_group_root` makes queries find one group only. constructor: "sah" (the default) or "lbvh", built in
    less than half of the time; "median" is taken as "sah", and `leaf_size` is ignored. Raises ArgumentError for unfit
    arrays.
    """

    def __init__(self, lowers, uppers, constructor: str | None = None, groups=None, leaf_size: int | None = None):
        check_array("lowers", lowers, k.vec3)
        check_array("uppers", uppers, k.vec3, lowers.device)
        check_constructor(constructor, leaf_size)
        if len(lowers) != len(uppers):
            raise ArgumentError(f"lowers and uppers differ in length: {len(lowers)} and {len(uppers)}")
        self.lowers, self.uppers, self.device = lowers, uppers, get_device(lowers.device)
        self._tree = Hierarchy(self.device, len(lowers))
        self._tree.take_groups(groups)
        self._constructor = constructor
        self.rebuild()

    @property
    def id(self) -> int:
        """The handle: an address, which stays the same for the life of the object."""
        return self._tree.handle.ptr

    @property
    def skipped(self) -> int:
        """Boxes that are not finite, or inverted, at the last build."""
        return self._tree.skipped

    def rebuild(self, constructor: str | None = None) -> None:
        """Build anew from the present boxes; `constructor`: another builder than before."""
        check_constructor(constructor, None)
        self._constructor = constructor or self._constructor
        self._tree.rebuild(record_boxes, fill_boxes, [self.lowers, self.uppers], {}, self._constructor)

    def refit(self) -> None:
        """Boxes have moved."""
        self._tree.refit(fill_boxes, [self.lowers, self.uppers])
