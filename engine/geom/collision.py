"""Collision: one pass per frame from poses to contacts.

    place shapes ─► [a shape left its fat box: find pairs, carry over what the old pairs knew] ─► narrow phase by family

The pairs, manifolds, impulses and fat boxes are fields of Contacts: with them and the State a pass can be repeated to
the same bits. Everything private here is derived from them.
"""


from engine.compiler import lang as k
from engine.context import Launch, empty, indirect, launch, zeros
from engine.geom.broad_phase import BroadPhase
from engine.geom.collide_boxes import Choice, collide_boxes, separate_boxes
from engine.geom.collide_convex import collide_convexes
from engine.geom.collide_planes import collide_planes
from engine.geom.collide_round import collide_rounds
from engine.geom.placed import Bound, Placed, make_bounds, place_shapes
from engine.geom.shapes import ShapeType
from engine.kernels.sort import RadixSort
from engine.state.model import Contacts, Model, State

SPHERE = int(ShapeType.SPHERE)
CAPSULE = int(ShapeType.CAPSULE)
BOX = int(ShapeType.BOX)
PLANE = int(ShapeType.PLANE)

# Families of pairs: each has its own narrow phase kernel.
PLANES = 0
ROUNDS = 1
BOXES = 2
CONVEXES = 3
FAMILIES = 4
FAMILY_BITS = 2


@k.func
def family_of(kind0: int, kind1: int) -> int:
    if kind0 == PLANE or kind1 == PLANE:
        return PLANES
    if kind0 == BOX and kind1 == BOX:
        return BOXES
    round0 = kind0 == SPHERE or kind0 == CAPSULE
    round1 = kind1 == SPHERE or kind1 == CAPSULE
    if round0 and round1:
        return ROUNDS
    if (kind0 == SPHERE and kind1 == BOX) or (kind0 == BOX and kind1 == SPHERE):
        return ROUNDS
    return CONVEXES


@k.requires(lambda tid, c, old: tid < c.pair_shape0.shape[0] and tid < old.pair_shape0.shape[0])
@k.kernel
def remember(c: Contacts, old: Contacts):
    """Keeps what a pair knows from one step to the next."""
    p = k.tid()
    if p == 0:
        old.pair_count[0] = c.pair_count[0]
    old.pair_shape0[p] = c.pair_shape0[p]
    old.pair_shape1[p] = c.pair_shape1[p]
    old.pair_axis[p] = c.pair_axis[p]
    old.manifold_count[p] = c.manifold_count[p]
    old.manifold_color[p] = c.manifold_color[p]
    old.manifold_friction[p] = c.manifold_friction[p]
    old.manifold_twist[p] = c.manifold_twist[p]
    for i in range(4 * p, 4 * p + 4):
        old.point_position[i] = c.point_position[i]
        old.point_feature[i] = c.point_feature[i]
        old.point_impulse[i] = c.point_impulse[i]


@k.func
def pair_before(c: Contacts, p: int, s0: int, s1: int) -> bool:
    t0 = c.pair_shape0[p]
    return t0 < s0 or (t0 == s0 and c.pair_shape1[p] < s1)


@k.func
def find_pair(c: Contacts, s0: int, s1: int, guess: int) -> int:
    """Search in the sorted pairs, in steps that double away from `guess` and halve again; −1 = none."""
    count = c.pair_count[0]
    if count == 0:
        return -1
    first = 0
    last = count
    step = 1
    at = min(guess, count - 1)
    if pair_before(c, at, s0, s1):
        first = at + 1
        while first + step <= count and pair_before(c, first + step - 1, s0, s1):
            first += step
            step *= 2
        last = min(first + step, count)
    else:
        last = at
        while last - step >= 0 and not pair_before(c, last - step, s0, s1):
            last -= step
            step *= 2
        first = max(last - step, 0)
    while first < last:
        mid = (first + last) // 2
        if pair_before(c, mid, s0, s1):
            first = mid + 1
        else:
            last = mid
    if first < count:
        if c.pair_shape0[first] == s0 and c.pair_shape1[first] == s1:
            return first
    return -1


@k.requires(lambda tid, m, c, old, keys: tid < keys.shape[0] and 1 <= m.shape_type.shape[0]
    and tid < c.pair_shape0.shape[0] and 1 <= old.pair_count.shape[0])  # fmt: skip
@k.kernel
def adopt(m: Model, c: Contacts, old: Contacts, keys: k.array(dtype=k.uint64), count: int):
    """Makes the sorted keys the pairs; those that were pairs before keep what they know."""
    p = k.tid()
    if p == 0:
        c.pair_count[0] = count
    nshape = k.uint64(m.nshape)
    s0 = int(keys[p] // nshape)
    s1 = int(keys[p] % nshape)
    c.pair_shape0[p] = s0
    c.pair_shape1[p] = s1
    o = find_pair(old, s0, s1, p)
    if o < 0:
        c.pair_axis[p] = -1
        c.manifold_count[p] = 0
        c.manifold_color[p] = -1
        c.manifold_friction[p] = k.vec3(0.0)
        c.manifold_twist[p] = 0.0
    else:
        c.pair_axis[p] = old.pair_axis[o]
        c.manifold_count[p] = old.manifold_count[o]
        c.manifold_color[p] = old.manifold_color[o]
        c.manifold_friction[p] = old.manifold_friction[o]
        c.manifold_twist[p] = old.manifold_twist[o]
        for i in range(4):
            c.point_position[4 * p + i] = old.point_position[4 * o + i]
            c.point_feature[4 * p + i] = old.point_feature[4 * o + i]
            c.point_impulse[4 * p + i] = old.point_impulse[4 * o + i]


@k.requires(lambda tid, c, placed, families, pairs: tid < c.pair_shape0.shape[0] and 0 <= c.pair_shape0[tid]
    and c.pair_shape0[tid] < placed.shape[0] and 0 <= c.pair_shape1[tid] and c.pair_shape1[tid] < placed.shape[0]
    and tid < families.shape[0] and tid < pairs.shape[0])  # fmt: skip
@k.kernel
def name_families(
    c: Contacts, placed: k.array(dtype=Placed), families: k.array(dtype=k.uint64), pairs: k.array(dtype=int)
):
    p = k.tid()
    families[p] = k.uint64(family_of(placed[c.pair_shape0[p]].kind, placed[c.pair_shape1[p]].kind))
    pairs[p] = p


@k.requires(lambda tid, start, size: tid < start.shape[0] and tid < size.shape[0])
@k.kernel
def find_families(families: k.array(dtype=k.uint64), start: k.array(dtype=int), size: k.array(dtype=int), count: int):
    """Where each family begins in the sorted list, and its size."""
    f = k.tid()
    begin = 0
    for side in range(2):
        first = 0
        last = count
        while first < last:
            mid = (first + last) // 2
            if families[mid] < k.uint64(f + side):
                first = mid + 1
            else:
                last = mid
        if side == 0:
            begin = first
        else:
            start[f] = begin
            size[f] = first - begin


class Collision:
    """Finds the contacts of a model's shapes.

    `pairs_made` counts how often the pairs were made anew: whoever keeps data by pair index must refresh it then.
    """

    def __init__(self, model: Model):
        self.model, self.device = model, model.device
        n = max(1, model.nshape)
        self.bounds = empty(n, dtype=Bound, device=self.device)
        self.placed = empty(n, dtype=Placed, device=self.device)
        self.motion = zeros(n, dtype=k.vec4, device=self.device)
        self.lower = zeros(n, dtype=k.vec3, device=self.device)
        self.upper = zeros(n, dtype=k.vec3, device=self.device)
        self.left_box = zeros(1, dtype=int, device=self.device)
        if model.nshape > 0:
            launch(make_bounds, model.nshape, inputs=[model, self.bounds], device=self.device)
        self.broad_phase = BroadPhase(model, self.bounds)
        self.old = Contacts({"one": 1}, self.device)
        self.family_start = zeros(FAMILIES, dtype=int, device=self.device)
        self.family_size = zeros(FAMILIES, dtype=int, device=self.device)
        self.pairs_made = 0
        self._contacts: Contacts | None = None
        self._place_args: tuple = ()
        self._capacity = 0
        self._recorded: dict[int, list[Launch]] = {}
        self._place: Launch | None = None
        self._narrow: list[Launch] = []
        self.version = 0  # counts changes of what `place` and `narrow_phase` launch

    def collide(self, state: State, contacts: Contacts, dt: float) -> None:
        """Writes all contacts at the poses of `state` to `contacts`, with the impulses of the last step where a point
        persists. dt: length of the frame, s: contacts of surfaces that may meet within it are made ahead."""
        self.fit(state, contacts, dt)
        self.place()
        self.update_pairs(contacts)
        self.narrow_phase()

    # The same in four steps: `place` and `narrow_phase` launch only, so that they can be captured.

    def fit(self, state: State, contacts: Contacts, dt: float) -> None:
        """Readies `place` for these tables and this length of a frame."""
        if self.model.nshape > 0 and (self._contacts is not contacts or self._place_args != (state, dt)):
            self._record_place(state, contacts, dt)

    def place(self) -> None:
        """Poses and bounds of the shapes, and whether one has left its fat box."""
        if self._place is not None:
            self.left_box.zero_()
            self._place.launch()

    def update_pairs(self, contacts: Contacts) -> None:
        """Makes the pairs anew where a shape has left its fat box: on the host, between `place` and `narrow_phase`."""
        if self.model.nshape == 0:
            return
        if self.left_box.numpy()[0] != 0:
            self._make_pairs(contacts)
        elif self._contacts is not contacts:
            self._sort_families(contacts)
        self._contacts = contacts

    def narrow_phase(self) -> None:
        """Manifolds of all pairs, family by family."""
        for narrow in self._narrow:
            narrow.launch()

    def reset(self) -> None:
        """The Contacts were overwritten from outside: derive everything again in the next pass."""
        self._contacts = None

    def _record_place(self, state: State, contacts: Contacts, dt: float) -> None:
        self._place_args = (state, dt)
        self.version += 1
        self._place = launch(
            place_shapes, self.model.nshape, device=self.device, record_cmd=True,
            inputs=[
                self.model, state, contacts, self.bounds, self.placed, self.motion, self.lower, self.upper,
                self.left_box, float(dt),
            ],
        )  # fmt: skip

    def _make_pairs(self, contacts: Contacts) -> None:
        """New pairs; the old ones' memory goes to those that persist. Grows the capacity as needed."""
        had = int(contacts.pair_count.numpy()[0])
        if self.old.count["npair"] < had:
            self.old.resize({"npair": contacts.count["npair"], "npoint": contacts.count["npoint"]}, keep=False)
        self.old.pair_count.zero_()
        if had > 0:
            launch(remember, had, inputs=[contacts, self.old], device=self.device)
        count = self.broad_phase.find(contacts, self.lower, self.upper, self.placed)
        if count > contacts.count["npair"]:
            capacity = count + count // 2
            contacts.resize({"npair": capacity, "npoint": 4 * capacity}, keep=False)
        if count > 0:
            inputs = [self.model, contacts, self.old, self.broad_phase.keys, count]
            launch(adopt, count, inputs=inputs, device=self.device)
        else:
            contacts.pair_count.zero_()
        self._sort_families(contacts)

    def _sort_families(self, contacts: Contacts) -> None:
        """Lists the pairs by family, and readies the narrow phase of each family that has some."""
        capacity = contacts.count["npair"]
        if self._capacity < capacity or self._contacts is not contacts:
            self._capacity = capacity
            self.families = empty(capacity, dtype=k.uint64, device=self.device)
            self.family_pair = zeros(capacity, dtype=int, device=self.device)
            self.family_sort = RadixSort(capacity, self.device)
            self._recorded.clear()
        count = int(contacts.pair_count.numpy()[0])
        if count > 0:
            inputs = [contacts, self.placed, self.families, self.family_pair]
            launch(name_families, count, inputs=inputs, device=self.device)
            self.family_sort.run(self.families, self.family_pair, count, FAMILY_BITS)
        inputs = [self.families, self.family_start, self.family_size, count]
        launch(find_families, FAMILIES, inputs=inputs, device=self.device)
        sizes = self.family_size.numpy()
        # a family that is empty for now stays: its launch then runs no thread, and nothing has to be captured again
        known = set(self._recorded)
        families = [f for f in range(FAMILIES) if sizes[f] > 0 or f in known]
        narrow = [one for f in families for one in self._narrow_phase(f, contacts)]
        if narrow != self._narrow:
            self._narrow = narrow
            self.version += 1
        self.pairs_made += 1

    def _narrow_phase(self, family: int, contacts: Contacts) -> list[Launch]:
        """The launches of one family, recorded when first needed: scenes compile only the kernels that they use."""
        if family not in self._recorded:
            kernels = ([collide_planes], [collide_rounds], [separate_boxes, collide_boxes], [collide_convexes])[family]
            rows = [contacts, self.placed, self.motion, self.family_pair, self.family_start, family]
            if family in (PLANES, CONVEXES):
                rows.insert(0, self.model)
            elif family == BOXES:
                rows.append(empty(self._capacity, dtype=Choice, device=self.device, layout="rows"))
            size = indirect(self.family_size[family : family + 1], self._capacity)
            self._recorded[family] = [
                launch(kernel, size, inputs=rows, device=self.device, record_cmd=True) for kernel in kernels
            ]
        return self._recorded[family]
