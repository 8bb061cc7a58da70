"""Wide bounding volume hierarchies in memory: their layout behind a handle, the boxes of a refit, and `Bvh` over boxes.

    node   64 words: lower x[8] y[8] z[8], upper x[8] y[8] z[8], child[8], place[8]    (no child: EMPTY, inverted box)
    leaf   80 words: first corner x[8] y[8] z[8], second, third, number[8]    (no primitive: −1, corners of the first)

A child is the number of a node, or ~(8 · leaf + primitives − 1); the primitives of a leaf have consecutive places, from
the one beside the child on. A box is kept as the triangle (lower, upper, lower), so that one traversal serves both. A
handle is the address of a `Tree` in the device's memory: the uint64 that kernels get.
"""

import functools
import sys
from collections import deque
from typing import Any

import numpy as np

from engine.compiler import lang as k
from engine.context import array, empty, launch, zeros
from engine.context.device import get_device
from engine.errors import ArgumentError
from engine.geom.bvh_build import (
    EMPTY,
    LEAF,
    LEAF_WORDS,
    NODE_ROWS,
    NODE_WORDS,
    WIDTH,
    Topology,
    leaf_of,
    single_leaf,
    vec8,
)
from engine.geom.bvh_split import build

CONSTRUCTORS = ("sah", "median", "lbvh")
LEFT_BEHIND = 1024  # handles whose objects are gone, before the memory of the first is used again


@k.struct
class Tree:
    """What stands behind a handle. The arrays of a mesh are empty for a hierarchy of boxes."""

    points: k.array(dtype=k.vec3)
    velocities: k.array(dtype=k.vec3)
    indices: k.array(dtype=int)  # three for each triangle
    bounds: k.array(dtype=k.vec3)  # the lower and the upper corner of all
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
def least(x) -> float:
    """The least of a vector's 8 components."""
    y = x
    for half in (4, 2, 1):
        for c in range(half):
            y[c] = k.select_min(y[c], y[c + half])
    return y[0]


@k.func
def node_box(nodes: k.array(dtype=float), node: int):
    """(lower, upper) of all that a node holds."""
    rows = array(ptr=nodes.ptr, shape=len(nodes) // WIDTH, dtype=vec8)
    lower, upper = k.vec3(), k.vec3()
    for axis in range(3):
        lower[axis] = least(rows[NODE_ROWS * node + axis])
        upper[axis] = -least(-rows[NODE_ROWS * node + axis + 3])
    return lower, upper


@k.func
def write_box(nodes: k.array(dtype=float), at: int, lower: k.vec3, upper: k.vec3):
    """The box of a child, whose first word is `at`."""
    for axis in range(3):
        nodes[at + WIDTH * axis] = lower[axis]
        nodes[at + WIDTH * (axis + 3)] = upper[axis]


@k.kernel(shape="thread", enable_backward=False)
def fit_boxes(
    lowers: k.array(dtype=k.vec3),
    uppers: k.array(dtype=k.vec3),
    nodes: k.array(dtype=float),
    leaves: k.array(dtype=float),
    start: int,
):
    """The boxes of a level of nodes, a thread for each child, from the level below and the boxes in leaves."""
    t = k.tid()
    at = NODE_WORDS * (start + t // WIDTH) + t % WIDTH
    child = k.bitcast(nodes[at + 6 * WIDTH], k.int32)
    lower, upper = k.vec3(k.inf), k.vec3(-k.inf)
    if child >= 0:
        lower, upper = node_box(nodes, child)
    elif child != EMPTY:
        leaf = LEAF_WORDS * leaf_of(child)
        for s in range(LEAF):
            box = k.bitcast(leaves[leaf + 9 * LEAF + s], k.int32)
            if box < 0:
                box = k.bitcast(leaves[leaf + 9 * LEAF], k.int32)
            low, high = lowers[box], uppers[box]
            for axis in range(3):
                leaves[leaf + axis * LEAF + s] = low[axis]
                leaves[leaf + (3 + axis) * LEAF + s] = high[axis]
                leaves[leaf + (6 + axis) * LEAF + s] = low[axis]
                lower[axis] = k.select_min(high[axis], k.select_min(low[axis], lower[axis]))  # NaN does not count
                upper[axis] = k.select_max(low[axis], k.select_max(high[axis], upper[axis]))
    write_box(nodes, at, lower, upper)


@k.kernel(enable_backward=False)
def bound(nodes: k.array(dtype=float), bounds: k.array(dtype=k.vec3)):
    """The box of all, from the root's."""
    bounds[0], bounds[1] = node_box(nodes, k.tid())


# --- handles ----------------------------------------------------------------------------------------------------------

_left_behind: deque[Any] = deque()


def new_handle(device) -> Any:
    """Memory for a `Tree`."""
    if device.is_cpu and len(_left_behind) >= LEFT_BEHIND:
        return _left_behind.popleft()
    return empty(1, dtype=Tree, device=device)


def leave_behind(handle: Any) -> None:
    """The object of a handle is gone: kernels that still have its id find nothing, and read no memory that is freed.

    On processors only: a GPU may be reading the handle just then.
    """
    if handle.device.is_cpu and not sys.is_finalizing():
        tree, row = _nothing()
        handle.store(row)  # not by `assign`, which a graph that is captured meanwhile would replay
        handle.block.kept = tree
        _left_behind.append(handle)


@functools.cache
def _nothing() -> tuple[Any, Any]:
    """A tree without primitives, and it in memory's form."""
    cpu = get_device("cpu")
    topology = single_leaf(empty(0, dtype=vec8, device=cpu), 0)
    bounds, slabs = zeros(2, dtype=k.vec3, device=cpu), zeros(NODE_WORDS, dtype=float, device=cpu)
    tree = Tree(  # type: ignore[call-arg]
        bounds=bounds, nodes=topology.nodes, leaves=topology.leaves, parents=topology.parents, slabs=slabs
    )
    one = empty(1, dtype=Tree, device=cpu)
    return tree, one.converted([tree])


class Hierarchy:
    """Topology, boxes and handle of a set of primitives. `skipped` counts those that are not finite and left out."""

    def __init__(self, device, count: int):
        self.device, self.count, self.skipped = device, count, 0
        self.topology: Topology | None = None
        self.bounds = empty(2, dtype=k.vec3, device=device)
        self.handle: Any = new_handle(device)
        self.moments: Any = None
        self.slabs: Any = None
        self.corners: Any = None  # the points that a refit of a mesh reads, by the places of triangles
        self.groups: Any = None
        self.group_ids: Any = None

    def rebuild(self, record, sources, fields, constructor: str | None) -> None:
        """Builds anew, but for boxes (`refit`). `record` is a kernel over `sources`, `fields` are for the handle"""
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

    def release(self) -> None:
        """The object that this belongs to is going."""
        handle, self.handle = self.handle, None
        if handle is not None:
            leave_behind(handle)

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
            bounds=self.bounds, nodes=self.nodes, leaves=self.leaves, parents=self.parents, slabs=self.slabs,
            moments=self.moments, groups=self.groups, group_ids=self.group_ids, **self.fields
        )  # fmt: skip
        self.handle.assign([tree])

    def refit(self, fit, sources) -> None:
        """New boxes for primitives that have moved, by a kernel that reads `sources`; the topology stays."""
        for first, end in self.levels_upward():
            arguments = [*sources, self.nodes, self.leaves, first]
            launch(fit, WIDTH * (end - first), inputs=arguments, device=self.device)
        self.fit_bounds()

    def fit_bounds(self) -> None:
        """The box of all, from the root's."""
        launch(bound, 1, inputs=[self.nodes, self.bounds], device=self.device)

    def levels_upward(self) -> list[tuple[int, int]]:
        """(first node, end) of each level, the deepest first."""
        assert self.topology is not None
        levels = self.topology.levels
        return list(zip(levels[:-1], levels[1:], strict=True))[::-1]

    @property
    def parents(self) -> Any:
        """(nodes,) 8 · node + child, −1 at the root."""
        assert self.topology is not None
        return self.topology.parents

    @property
    def nbytes(self) -> int:
        """Bytes that the hierarchy takes, what refits have needed so far included."""
        of_meshes = sum(part.size for part in (self.slabs, self.corners) if part is not None)
        return 4 * (self.nodes.size + self.leaves.size + of_meshes + self.parents.size)


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

    def __del__(self) -> None:
        if hasattr(self, "_tree"):  # which there is not where the arguments were refused
            self._tree.release()

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
        self._tree.rebuild(record_boxes, [self.lowers, self.uppers], {}, self._constructor)
        self.refit()

    def refit(self) -> None:
        """Boxes have moved."""
        self._tree.refit(fit_boxes, [self.lowers, self.uppers])
