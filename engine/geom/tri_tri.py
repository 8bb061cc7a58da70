"""Whether two triangles have a point in common, in kernels: by signs of determinants that rounding cannot turn.

Segments and points, which triangles without area are, take part; so do triangles of one plane. A sign is taken in
float64 where that is certain, and else from an unevaluated sum of two (Shewchuk 1997, "Adaptive Precision
Floating-Point Arithmetic"): it is right down to 2⁻⁹⁴ of the determinant's terms, and 0 below, which counts as touching.
For float32 corners that is exact unless the coordinates along an axis, zeros aside, differ in size by more than 2⁷.
"""

# mypy: disable-error-code="index, misc, no-redef, operator"
# (overloads, and operators of values, mean something to the kernel compiler only)

from engine.compiler import lang as k
from engine.compiler.library.extended import product

SURE = 1.0e-15  # times the sum of its terms' sizes: more than rounding changes a determinant by
NOTHING = 2.0**-94  # and what the sum of two leaves unknown

vec2d, vec3d, f64 = k.vec2d, k.vec3d, k.float64


@k.func
def sign(x: f64) -> int:
    return 1 if x > f64(0.0) else (-1 if x < f64(0.0) else 0)


@k.func
def minor(a: f64, b: f64, c: f64, d: f64) -> f64:
    """a b − c d with an error in its last places only: 0 for 0, and the right sign, always."""
    p, p_low = product(a, b)
    q, q_low = product(c, d)
    return (p - q) + (p_low - q_low)


@k.func
def add(high: f64, low: f64, x: f64, y: f64):
    """(high, low) + x y."""
    p, p_low = product(x, y)
    s = high + p
    part = s - high
    return s, low + (((high - (s - part)) + (p - part)) + p_low)


@k.func
def add_triple(high: f64, low: f64, x: f64, y: f64, z: f64):
    """(high, low) + x y z."""
    p, p_low = product(x, y)
    high, low = add(high, low, p, z)
    return add(high, low, p_low, z)


@k.func
def careful_determinant(a: vec3d, b: vec3d, c: vec3d) -> f64:
    """Of three rows, in an unevaluated sum of two."""
    high, low = f64(0.0), f64(0.0)
    i = 0
    while i < 3:
        j, m = (i + 1) % 3, (i + 2) % 3
        high, low = add_triple(high, low, b[j], c[m], a[i])
        high, low = add_triple(high, low, -b[m], c[j], a[i])
        i += 1
    return high + low


@k.func
def side(a: vec3d, b: vec3d, c: vec3d, d: vec3d) -> int:
    """1 if a, b, c run clockwise seen from d, −1 if they run counter-clockwise, 0 if the four are in one plane."""
    x, y, z = a - d, b - d, c - d
    value = k.dot(x, k.cross(y, z))
    size = k.abs(x[0]) * (k.abs(y[1] * z[2]) + k.abs(y[2] * z[1]))
    size += k.abs(x[1]) * (k.abs(y[2] * z[0]) + k.abs(y[0] * z[2]))
    size += k.abs(x[2]) * (k.abs(y[0] * z[1]) + k.abs(y[1] * z[0]))
    if k.abs(value) <= f64(SURE) * size:
        value = careful_determinant(x, y, z)
        if k.abs(value) <= f64(NOTHING) * size:
            value = f64(0.0)
    return sign(value)


@k.func
def normal(a: vec3d, b: vec3d, c: vec3d) -> vec3d:
    """Of a triangle; exactly 0 if it has no area."""
    x, y = b - a, c - a
    return vec3d(minor(x[1], y[2], x[2], y[1]), minor(x[2], y[0], x[0], y[2]), minor(x[0], y[1], x[1], y[0]))


@k.func
def is_zero(v: vec3d) -> bool:
    return v[0] == f64(0.0) and v[1] == f64(0.0) and v[2] == f64(0.0)


# --- in a plane -------------------------------------------------------------------------------------------------------


@k.func
def turn(a: vec2d, b: vec2d, c: vec2d) -> int:
    """1 if a, b, c run counter-clockwise, −1 if clockwise, 0 if they are in one line."""
    return sign(minor(a[0] - c[0], b[1] - c[1], a[1] - c[1], b[0] - c[0]))


@k.func
def apart(a: f64, b: f64, c: f64, d: f64) -> bool:
    """Whether the intervals between a and b and between c and d have nothing in common."""
    return k.max(a, b) < k.min(c, d) or k.max(c, d) < k.min(a, b)


@k.func
def segments_meet(a: vec2d, b: vec2d, c: vec2d, d: vec2d) -> bool:
    meet = not apart(a[0], b[0], c[0], d[0]) and not apart(a[1], b[1], c[1], d[1])
    return meet and turn(a, b, c) * turn(a, b, d) <= 0 and turn(c, d, a) * turn(c, d, b) <= 0


@k.func
def flat(p: vec3d, axis: int) -> vec2d:
    """Seen along an axis."""
    return vec2d(p[(axis + 1) % 3], p[(axis + 2) % 3])


@k.func
def within(p: vec2d, corners: k.fixedarray(shape=6, dtype=vec3d), first: int, axis: int) -> bool:
    """Whether p is inside of the triangle of the three corners from `first` on, and not on its border."""
    a, b, c = flat(corners[first], axis), flat(corners[first + 1], axis), flat(corners[first + 2], axis)
    turns = turn(a, b, p) + turn(b, c, p) + turn(c, a, p)
    return turns == 3 or turns == -3


@k.func
def segment_meets(p: vec2d, q: vec2d, corners: k.fixedarray(shape=6, dtype=vec3d), first: int,
                  axis: int) -> bool:  # fmt: skip
    """Whether p … q has a point in common with that triangle, its border included."""
    found = within(p, corners, first, axis)
    e = 0
    while e < 3 and not found:
        found = segments_meet(p, q, flat(corners[first + e], axis), flat(corners[first + (e + 1) % 3], axis))
        e += 1
    return found


@k.func
def meet_in_plane(corners: k.fixedarray(shape=6, dtype=vec3d), axis: int) -> bool:
    """Two triangles of one plane, seen along an axis from which no two of its points look alike."""
    found = within(flat(corners[3], axis), corners, 0, axis)
    e = 0
    while e < 3 and not found:
        p, q = flat(corners[e], axis), flat(corners[(e + 1) % 3], axis)
        found = segment_meets(p, q, corners, 3, axis)
        e += 1
    return found


# --- in space ---------------------------------------------------------------------------------------------------------


@k.func
def widest(v: vec3d) -> int:
    """The axis of the largest component."""
    x, y, z = k.abs(v[0]), k.abs(v[1]), k.abs(v[2])
    return 0 if x >= y and x >= z else (1 if y >= z else 2)


@k.func
def middle_corner(corners: k.fixedarray(shape=6, dtype=vec3d), first: int) -> int:
    """Of three corners in one line: which lies between the others, and can be left out."""
    between = 0
    longest = f64(-1.0)
    e = 0
    while e < 3:
        length = k.length_sq(corners[first + (e + 1) % 3] - corners[first + (e + 2) % 3])
        if length > longest:
            longest = length
            between = e
        e += 1
    return between


@k.func
def view_of_lines(p: vec3d, q: vec3d, r: vec3d, s: vec3d) -> int:
    """An axis along which no two points of the plane, or the line, of the segments p … q and r … s look alike."""
    n = normal(p, q, r)
    if is_zero(n):
        n = normal(p, q, s)
    if is_zero(n):
        n = normal(r, s, p)
    axis = widest(n)
    if is_zero(n):
        along = q - p
        if k.length_sq(s - r) > k.length_sq(along):
            along = s - r
        if k.length_sq(r - p) > k.length_sq(along):
            along = r - p
        axis = (widest(along) + 1) % 3
    return axis


@k.func
def lines_meet(corners: k.fixedarray(shape=6, dtype=vec3d)) -> bool:
    """Two triangles without area."""
    i, j = middle_corner(corners, 0), middle_corner(corners, 3)
    p, q = corners[(i + 1) % 3], corners[(i + 2) % 3]
    r, s = corners[3 + (j + 1) % 3], corners[3 + (j + 2) % 3]
    axis = view_of_lines(p, q, r, s)
    return side(p, q, r, s) == 0 and segments_meet(flat(p, axis), flat(q, axis), flat(r, axis), flat(s, axis))


@k.func
def edges_meet(corners: k.fixedarray(shape=6, dtype=vec3d), sides: k.fixedarray(shape=6, dtype=int), edges: int,
               first: int, axis: int) -> bool:  # fmt: skip
    """Whether an edge of the triangle whose corners begin at `edges` meets that at `first`, which has an area.

    sides: of the planes of the other triangle the corners are on. axis: the widest of the normal of that at `first`.
    """
    a, b, c = corners[first], corners[first + 1], corners[first + 2]
    found = False
    e = 0
    while e < 3 and not found:
        i, j = edges + e, edges + (e + 1) % 3
        p, q = corners[i], corners[j]
        if sides[i] == 0 and sides[j] == 0:
            found = segment_meets(flat(p, axis), flat(q, axis), corners, first, axis)
        elif sides[i] * sides[j] <= 0:
            positive, negative = False, False
            m = 0
            while m < 3:
                s = side(p, q, a, b)
                positive, negative = positive or s > 0, negative or s < 0
                a, b, c = b, c, a
                m += 1
            found = not (positive and negative)
        e += 1
    return found


@k.func
def intersect_tri_tri(v0: vec3d, v1: vec3d, v2: vec3d, u0: vec3d, u1: vec3d, u2: vec3d) -> int:
    """1 if the triangles v0, v1, v2 and u0, u1, u2 have a point in common, else 0; borders belong to them.

    Triangles of one plane, and without area, are treated as what they are; corners that are not finite touch nothing.
    Of vec3 corners the answer is exact, see the file's head; of vec3d corners up to the rounding of their differences.
    """
    corners = k.zeros(shape=6, dtype=vec3d)
    corners[0], corners[1], corners[2], corners[3], corners[4], corners[5] = v0, v1, v2, u0, u1, u2
    sides = k.zeros(shape=6, dtype=int)
    nv, nu = normal(v0, v1, v2), normal(u0, u1, u2)
    has_area_v, has_area_u = not is_zero(nv), not is_zero(nu)
    total_v, total_u, touching_v, touching_u = 0, 0, 0, 0
    i = 0
    while i < 6:
        other = 3 if i < 3 else 0
        sides[i] = side(corners[other], corners[other + 1], corners[other + 2], corners[i])
        if i < 3:
            total_v += sides[i]
            touching_v += 1 if sides[i] == 0 else 0
        else:
            total_u += sides[i]
            touching_u += 1 if sides[i] == 0 else 0
        i += 1
    sum = v0 + v1 + v2 + u0 + u1 + u2
    found = False
    if k.isfinite(sum[0] + sum[1] + sum[2]) and k.abs(total_v) < 3 and k.abs(total_u) < 3:
        if not has_area_v and not has_area_u:
            found = lines_meet(corners)
        elif has_area_v and touching_u == 3:
            found = meet_in_plane(corners, widest(nv))
        elif has_area_u and touching_v == 3:
            found = meet_in_plane(corners, widest(nu))
        else:
            found = has_area_v and edges_meet(corners, sides, 3, 0, widest(nv))
            found = found or (has_area_u and edges_meet(corners, sides, 0, 3, widest(nu)))
    return 1 if found else 0


@k.func
def intersect_tri_tri(v0: k.vec3, v1: k.vec3, v2: k.vec3, u0: k.vec3, u1: k.vec3, u2: k.vec3) -> int:  # noqa: F811
    return intersect_tri_tri(vec3d(v0), vec3d(v1), vec3d(v2), vec3d(u0), vec3d(u1), vec3d(u2))
