"""Broad phase: which shapes may touch, from a bounding-volume tree over fat boxes; canonical, complete, deterministic.

    fatten ─► Morton codes ─► sort ─► leaves ─► levels of the tree ─► count pairs ─► scan ─► write keys ─► sort

The tree is implicit (as Apetrei 2014 and others build over Morton order, but with fixed shape): node n of a level holds
nodes 4n … 4n + 3 of the level below, level 0 being the boxes along the Morton curve. It needs no links, no atomics, and
walks without a stack; all boxes after one's own along the curve are visited, so each pair is found once. A fourth
coordinate of the boxes, the world, keeps replicated worlds apart. Infinite planes are tested against all.
"""

import numpy as np

from engine.compiler import lang as k
from engine.context import array, empty, launch, zeros
from engine.geom.placed import Bound, Placed
from engine.geom.shapes import ShapeType
from engine.kernels.reduce import Bounds
from engine.kernels.scan import Scan
from engine.kernels.sort import RadixSort
from engine.state.model import Contacts, Model
from engine.state.schema import ShapeFlag

PLANE = int(ShapeType.PLANE)

MORTON_BITS = 16  # per axis: cells of 2 m even if one body has fallen 100 km away from the others
MORTON_CELLS = 1 << MORTON_BITS
EVERY_WORLD = 3.0e38


@k.func
def contains_key(keys, count, key) -> bool:
    """Binary search in an ascending uint64 array."""
    first = 0
    last = count
    while first < last:
        mid = (first + last) // 2
        if keys[mid] < key:
            first = mid + 1
        else:
            last = mid
    return first < count and keys[first] == key


@k.func
def wide_key(lo: int, hi: int):
    return (k.uint64(lo) << k.uint64(32)) | k.uint64(hi)


@k.func
def may_collide(m: Model, jointed: k.array(dtype=k.uint64), njointed: int, i: int, j: int) -> bool:
    """All rules but the geometric one, for shapes i < j."""
    body_i = m.shape_body[i]
    body_j = m.shape_body[j]
    if body_i == body_j:
        return False
    moves = False
    if body_i >= 0:
        moves = m.body_inv_mass[body_i] > 0.0
    if body_j >= 0:
        moves = moves or m.body_inv_mass[body_j] > 0.0
    if not moves:
        return False
    none = k.uint32(0)
    if (m.shape_group[i] & m.shape_mask[j]) == none or (m.shape_group[j] & m.shape_mask[i]) == none:
        return False
    if m.shape_world[i] != m.shape_world[j] and m.shape_world[i] >= 0 and m.shape_world[j] >= 0:
        return False
    if m.nfilter > 0:
        if contains_key(m.shape_filter_pair, m.nfilter, wide_key(i, j)):
            return False
    if njointed > 0 and body_i >= 0 and body_j >= 0:
        if contains_key(jointed, njointed, wide_key(min(body_i, body_j), max(body_i, body_j))):
            return False
    return True


@k.requires(lambda tid, c, bounds, lower, upper, center, solid: tid < solid.shape[0] and 0 <= solid[tid]
    and solid[tid] < bounds.shape[0] and solid[tid] < lower.shape[0] and solid[tid] < upper.shape[0]
    and solid[tid] < c.fat_lower.shape[0] and tid < center.shape[0])  # fmt: skip
@k.kernel
def fatten(
    c: Contacts,
    bounds: k.array(dtype=Bound),
    lower: k.array(dtype=k.vec3),
    upper: k.array(dtype=k.vec3),
    center: k.array(dtype=k.vec3),
    solid: k.array(dtype=int),
):
    """Per solid shape: its fat box, and the centre of it."""
    t = k.tid()
    i = solid[t]
    fat = bounds[i].fat
    lo = lower[i] - k.vec3(fat)
    hi = upper[i] + k.vec3(fat)
    c.fat_lower[i] = lo
    c.fat_upper[i] = hi
    center[t] = (lo + hi) * 0.5


@k.func
def spread(x):
    """Bits 0 … 15 of a uint64 to every third bit."""
    x = (x | (x << k.uint64(16))) & k.uint64(0x0000FF0000FF)
    x = (x | (x << k.uint64(8))) & k.uint64(0x00F00F00F00F)
    x = (x | (x << k.uint64(4))) & k.uint64(0x0C30C30C30C3)
    return (x | (x << k.uint64(2))) & k.uint64(0x249249249249)


@k.func
def cell(x, lower, scale):
    return k.uint64(int(k.clamp((x - lower) * scale, 0.0, float(MORTON_CELLS - 1))))


@k.requires(lambda tid, m, center, scene_lower, scene_upper, solid, keys, order: 1 <= scene_lower.shape[0]
    and 1 <= scene_upper.shape[0] and tid < center.shape[0] and tid < solid.shape[0] and 0 <= solid[tid]
    and solid[tid] < m.shape_type.shape[0] and tid < keys.shape[0] and tid < order.shape[0])  # fmt: skip
@k.kernel
def make_codes(
    m: Model,
    center: k.array(dtype=k.vec3),
    scene_lower: k.array(dtype=k.vec3),
    scene_upper: k.array(dtype=k.vec3),
    solid: k.array(dtype=int),
    keys: k.array(dtype=k.uint64),
    order: k.array(dtype=int),
):
    """Sort keys: world, then the Morton code of the centre."""
    t = k.tid()
    lo = scene_lower[0]
    hi = scene_upper[0]
    p = center[t]
    size = max(max(hi.x - lo.x, hi.y - lo.y), max(hi.z - lo.z, 1.0e-6))
    scale = float(MORTON_CELLS) / size
    x = spread(cell(p.x, lo.x, scale))
    y = spread(cell(p.y, lo.y, scale))
    z = spread(cell(p.z, lo.z, scale))
    world = k.uint64(m.shape_world[solid[t]] + 1)
    keys[t] = (world << k.uint64(3 * MORTON_BITS)) | x | (y << k.uint64(1)) | (z << k.uint64(2))
    order[t] = solid[t]


@k.requires(lambda tid, m, c, order, node_lower, node_upper: tid < order.shape[0] and 0 <= order[tid]
    and order[tid] < m.shape_type.shape[0] and order[tid] < c.fat_lower.shape[0] and tid < node_lower.shape[0]
    and tid < node_upper.shape[0])  # fmt: skip
@k.kernel
def make_leaves(
    m: Model,
    c: Contacts,
    order: k.array(dtype=int),
    node_lower: k.array(dtype=k.vec4),
    node_upper: k.array(dtype=k.vec4),
):
    t = k.tid()
    i = order[t]
    world = float(m.shape_world[i])
    lo = c.fat_lower[i]
    hi = c.fat_upper[i]
    node_lower[t] = k.vec4(lo.x, lo.y, lo.z, -EVERY_WORLD if world < 0.0 else world)
    node_upper[t] = k.vec4(hi.x, hi.y, hi.z, EVERY_WORLD if world < 0.0 else world)


@k.kernel
def make_level(
    node_lower: k.array(dtype=k.vec4), node_upper: k.array(dtype=k.vec4), below: int, below_count: int, start: int
):
    """Boxes of one level of the tree (from `start`) around groups of four of the level below."""
    t = k.tid()
    first = 4 * t
    lo = node_lower[below + first]
    hi = node_upper[below + first]
    for i in range(first + 1, min(first + 4, below_count)):
        a = node_lower[below + i]
        b = node_upper[below + i]
        lo = k.vec4(k.select_min(a.x, lo.x), k.select_min(a.y, lo.y), k.select_min(a.z, lo.z), k.select_min(a.w, lo.w))
        hi = k.vec4(k.select_max(b.x, hi.x), k.select_max(b.y, hi.y), k.select_max(b.z, hi.z), k.select_max(b.w, hi.w))
    node_lower[start + t] = lo
    node_upper[start + t] = hi


@k.func
def overlap(al: k.vec4, au: k.vec4, bl: k.vec4, bu: k.vec4) -> bool:
    x = al.x <= bu.x and bl.x <= au.x
    y = al.y <= bu.y and bl.y <= au.y
    z = al.z <= bu.z and bl.z <= au.z
    return x and y and z and al.w <= bu.w and bl.w <= au.w


@k.func
def above_plane(plane: Placed, lo: k.vec4, hi: k.vec4) -> bool:
    """True if a box lies wholly in front of the plane."""
    normal = k.vec3(plane.rot[0, 2], plane.rot[1, 2], plane.rot[2, 2])
    x = (lo.x if normal.x > 0.0 else hi.x) - plane.pos.x
    y = (lo.y if normal.y > 0.0 else hi.y) - plane.pos.y
    z = (lo.z if normal.z > 0.0 else hi.z) - plane.pos.z
    return normal.x * x + normal.y * y + normal.z * z > 0.0


# Launched twice: it counts (write = 0), and when the counts are scanned it writes each pair's key at its place.
@k.requires(lambda tid, node_lower, node_upper, order: tid < order.shape[0] and tid < node_lower.shape[0]
    and tid < node_upper.shape[0])  # fmt: skip
@k.kernel
def find_pairs(
    m: Model,
    jointed: k.array(dtype=k.uint64),
    njointed: int,
    node_lower: k.array(dtype=k.vec4),
    node_upper: k.array(dtype=k.vec4),
    level_start: k.array(dtype=int),
    nlevel: int,
    order: k.array(dtype=int),
    planes: k.array(dtype=int),
    nplane: int,
    placed: k.array(dtype=Placed),
    place: k.array(dtype=int),
    keys: k.array(dtype=k.uint64),
    write: int,
):
    t = k.tid()
    i = order[t]
    lo = node_lower[t]
    hi = node_upper[t]
    nshape = k.uint64(m.nshape)
    found = 0
    first = 0
    if write == 1:
        first = place[t]
    for p in range(nplane):
        j = planes[p]
        # planes have no fat box: one on a moving body may meet every shape
        if m.shape_body[j] >= 0 or not above_plane(placed[j], lo, hi):
            if may_collide(m, jointed, njointed, min(i, j), max(i, j)):
                if write == 1:
                    keys[first + found] = k.uint64(min(i, j)) * nshape + k.uint64(max(i, j))
                found += 1
    level = 0
    n = t + 1
    while n & 3 == 0 and level + 1 < nlevel:
        n = n >> 2
        level += 1
    while n < level_start[level + 1] - level_start[level]:
        node = level_start[level] + n
        inside = overlap(lo, hi, node_lower[node], node_upper[node])
        if inside and level > 0:
            level -= 1
            n = n << 2
        else:
            if inside:
                j = order[n]
                if may_collide(m, jointed, njointed, min(i, j), max(i, j)):
                    if write == 1:
                        keys[first + found] = k.uint64(min(i, j)) * nshape + k.uint64(max(i, j))
                    found += 1
            n += 1
            while n & 3 == 0 and level + 1 < nlevel:
                n = n >> 2
                level += 1
    if write == 0:
        place[t] = found


class BroadPhase:
    """Pairs of shapes whose fat boxes overlap and that no rule keeps apart. Owns the tree."""

    def __init__(self, model: Model, bounds):
        self.model, self.bounds, self.device = model, bounds, model.device
        collides = (model.shape_flags.numpy() & int(ShapeFlag.COLLIDE)) != 0
        infinite = (model.shape_type.numpy() == PLANE) & (model.shape_scale.numpy()[:, :2] <= 0.0).any(axis=1)
        self.solid = self._indices(collides & ~infinite)
        self.planes = self._indices(collides & infinite)
        self.nsolid, self.nplane = int(np.sum(collides & ~infinite)), int(np.sum(collides & infinite))
        jointed = _jointed_bodies(model)
        self.njointed = len(jointed)
        self.jointed = array(np.append(jointed, np.uint64(0)), dtype=k.uint64, device=self.device)
        n = max(1, self.nsolid)
        self.center = empty(n, dtype=k.vec3, device=self.device)
        self.scene = Bounds(n, self.device)
        self.codes = empty(n, dtype=k.uint64, device=self.device)
        self.order = empty(n, dtype=int, device=self.device)
        self.leaf_sort = RadixSort(n, self.device)
        self.code_bits = 3 * MORTON_BITS + int(model.shape_world.numpy().max(initial=-1) + 1).bit_length()
        counts = [n]
        while counts[-1] > 4:
            counts.append(-(-counts[-1] // 4))
        self.level_counts = counts
        self.level_starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        self.level_start = array(self.level_starts, dtype=int, device=self.device)
        self.node_lower = empty(int(self.level_starts[-1]), dtype=k.vec4, device=self.device)
        self.node_upper = empty(int(self.level_starts[-1]), dtype=k.vec4, device=self.device)
        self.place = zeros(n + 1, dtype=int, device=self.device)
        self.place_scan = Scan(n, self.device)
        self.keys = empty(1, dtype=k.uint64, device=self.device)
        self.key_sort = RadixSort(1, self.device, k.uint64, None)
        self.key_bits = max(1, (max(1, model.nshape) ** 2 - 1).bit_length())

    def _indices(self, mask: np.ndarray):
        """Where mask is true, as a device array of at least one element."""
        found = np.flatnonzero(mask).astype(np.int32)
        return array(found if len(found) else np.zeros(1, np.int32), dtype=int, device=self.device)

    def find(self, contacts: Contacts, lower, upper, placed) -> int:
        """Fattens the boxes (lower, upper) and finds all pairs: returns how many; `keys`[:n] holds shape 0 · nshape +
        shape 1, ascending."""
        if self.nsolid == 0:
            return 0
        self._build(contacts, lower, upper)
        self._visit(placed, write=0)
        self.place_scan.run(self.place, self.place, self.nsolid)
        count = int(self.place.numpy()[self.nsolid])
        if count > len(self.keys):
            capacity = count + count // 2
            self.keys = empty(capacity, dtype=k.uint64, device=self.device)
            self.key_sort = RadixSort(capacity, self.device, k.uint64, None)
        if count > 0:
            self._visit(placed, write=1)
            self.key_sort.run(self.keys, None, count, self.key_bits)
        return count

    def _build(self, contacts: Contacts, lower, upper) -> None:
        """The tree over the fat boxes."""
        n, device = self.nsolid, self.device
        launch(fatten, n, inputs=[contacts, self.bounds, lower, upper, self.center, self.solid], device=device)
        self.scene.run(self.center, self.center, n)
        launch(
            make_codes, n, device=device,
            inputs=[self.model, self.center, self.scene.lower, self.scene.upper, self.solid, self.codes, self.order],
        )  # fmt: skip
        self.leaf_sort.run(self.codes, self.order, n, self.code_bits)
        nodes = [self.node_lower, self.node_upper]
        launch(make_leaves, n, inputs=[self.model, contacts, self.order, *nodes], device=device)
        starts, counts = self.level_starts, self.level_counts
        for level in range(1, len(counts)):
            shape = [int(starts[level - 1]), counts[level - 1], int(starts[level])]
            launch(make_level, counts[level], inputs=[*nodes, *shape], device=device)

    def _visit(self, placed, write: int) -> None:
        launch(
            find_pairs, self.nsolid, device=self.device,
            inputs=[
                self.model, self.jointed, self.njointed, self.node_lower, self.node_upper, self.level_start,
                len(self.level_counts), self.order, self.planes, self.nplane, placed, self.place,
                self.keys, write,
            ],
        )  # fmt: skip


def _jointed_bodies(model: Model) -> np.ndarray:
    """Keys lo << 32 | hi of the pairs of bodies that a joint connects and that do not collide, ascending."""
    if model.njoint == 0:
        return np.zeros(0, np.uint64)
    parent, child = model.joint_parent.numpy().astype(np.int64), model.joint_child.numpy().astype(np.int64)
    apart = (model.joint_collide.numpy() == 0) & (parent >= 0) & (child >= 0)
    lo, hi = np.minimum(parent, child)[apart], np.maximum(parent, child)[apart]
    return np.unique((lo << 32 | hi).astype(np.uint64))
