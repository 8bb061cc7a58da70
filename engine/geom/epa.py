"""Depth of two overlapping convex cores: EPA (van den Bergen 2001), the face of D = B − A nearest to the origin."""

from engine.compiler import lang as k
from engine.geom.convex import Convex, support
from engine.geom.gjk import triangle_weights
from engine.state.model import Model

MAX_STEPS = 36
MAX_CORNERS = 40  # 4 + MAX_STEPS
MAX_FACES = 80  # a closed surface of 40 triangulated corners has 76
MAX_EDGES = 80

FAR = 3.0e38

DEAD = -3.0e38

# Triangles with a smaller squared sine have no reliable normal.
SLIM_SQ = 1.0e-8

# A face sees a point that lies this part of the size of D over it.
SEE = 1.0e-6


@k.struct
class Penetration:
    found: bool
    normal: k.vec3  # from A to B: the way for B to leave
    depth: float
    on_a: k.vec3  # the deepest point of A's core


@k.func
def seed_direction(w, n, attempt) -> k.vec3:
    """A direction in which a further corner may make the simplex of n < 4 corners one dimension larger."""
    sign = 1.0 if attempt & 1 == 0 else -1.0
    turn = (attempt >> 1) % 3
    axis = k.vec3(sign if turn == 0 else 0.0, sign if turn == 1 else 0.0, sign if turn == 2 else 0.0)
    if n == 1:
        return axis
    if n == 2:
        return k.cross(w[1] - w[0], axis)
    return k.cross(w[1] - w[0], w[2] - w[0]) * sign


@k.func
def grows(w, n, p: k.vec3, size_sq) -> bool:
    """True if p lies clearly outside the point, line or plane of the first n corners."""
    d = p - w[0]
    if n == 1:
        return k.dot(d, d) > 1.0e-8 * size_sq
    e = k.cross(w[1] - w[0], d)
    if n == 2:
        return k.dot(e, e) > 1.0e-8 * size_sq * k.dot(w[1] - w[0], w[1] - w[0])
    normal = k.cross(w[1] - w[0], w[2] - w[0])
    x = k.dot(normal, d)
    return x * x > 1.0e-8 * size_sq * k.dot(normal, normal)


@k.func
def face_plane(w, i0, i1, i2) -> k.vec4:
    """Outward unit normal and distance from the origin; a triangle that is nearly a line has none: (0, 0, 0, FAR)."""
    a = w[i0]
    b = w[i1] - a
    c = w[i2] - a
    normal = k.cross(b, c)
    len_sq = k.dot(normal, normal)
    if len_sq <= SLIM_SQ * k.dot(b, b) * k.dot(c, c):
        return k.vec4(0.0, 0.0, 0.0, FAR)
    normal = normal / k.sqrt(len_sq)
    return k.vec4(normal.x, normal.y, normal.z, k.dot(normal, a))


@k.func
def toggle_edge(edge0, edge1, count, i, j) -> int:
    """Adds edge i → j to the horizon, or removes j → i if it is there (then both faces at it are visible)."""
    for e in range(count):
        if edge0[e] == j and edge1[e] == i:
            edge0[e] = edge0[count - 1]
            edge1[e] = edge1[count - 1]
            return count - 1
    if count < MAX_EDGES:
        edge0[count] = i
        edge1[count] = j
        count += 1
    return count


@k.func
def seed(m: Model, a: Convex, b: Convex, rel: k.vec3, w, on_a, n) -> int:
    """Completes the simplex to a tetrahedron with outward faces (0 1 2), (0 3 1), (0 2 3), (1 3 2); returns its number
    of corners, less than 4 where D is flat."""
    size_sq = 1.0e-20
    for i in range(n):
        size_sq = max(size_sq, k.dot(w[i], w[i]))
    attempt = 0
    while n < 4 and attempt < 6:
        d = seed_direction(w, n, attempt)
        pa = support(m, a, -d)
        p = support(m, b, d) + rel - pa
        size_sq = max(size_sq, k.dot(p, p))
        attempt += 1
        if n == 0 or grows(w, n, p, size_sq):
            w[n] = p
            on_a[n] = pa
            n += 1
            attempt = 0
    if n == 4:
        if k.dot(k.cross(w[1] - w[0], w[2] - w[0]), w[3] - w[0]) > 0.0:
            p = w[0]
            w[0] = w[1]
            w[1] = p
            p = on_a[0]
            on_a[0] = on_a[1]
            on_a[1] = p
    return n


@k.func
def remove_face(plane, corner0, corner1, corner2, f, edge0, edge1, edges) -> int:
    """Marks face f dead (plane.w = DEAD) and takes it out of the region that the horizon encloses."""
    edges = toggle_edge(edge0, edge1, edges, corner0[f], corner1[f])
    edges = toggle_edge(edge0, edge1, edges, corner1[f], corner2[f])
    edges = toggle_edge(edge0, edge1, edges, corner2[f], corner0[f])
    plane[f] = k.vec4(0.0, 0.0, 0.0, DEAD)
    return edges


@k.func
def borders(edge0, edge1, edges, i, j) -> bool:
    """True if the horizon has the edge j → i, the other side of i → j."""
    for e in range(edges):
        if edge0[e] == j and edge1[e] == i:
            return True
    return False


@k.func
def horizon(plane, corner0, corner1, corner2, faces, first, p, see, edge0, edge1) -> int:
    """Removes the faces that see p, spreading from face `first` over shared edges, so that what is removed stays in one
    piece whatever the rounding; returns the number of edges around it."""
    edges = remove_face(plane, corner0, corner1, corner2, first, edge0, edge1, 0)
    grown = True
    while grown:
        grown = False
        for f in range(faces):
            q = plane[f]
            if q.w != DEAD and q.x * p.x + q.y * p.y + q.z * p.z > q.w + see:
                touches = borders(edge0, edge1, edges, corner0[f], corner1[f])
                touches = touches or borders(edge0, edge1, edges, corner1[f], corner2[f])
                touches = touches or borders(edge0, edge1, edges, corner2[f], corner0[f])
                if touches:
                    edges = remove_face(plane, corner0, corner1, corner2, f, edge0, edge1, edges)
                    grown = True
    return edges


@k.func
def drop_dead(plane, corner0, corner1, corner2, faces) -> int:
    """Closes the gaps that dead faces left; returns the number of faces."""
    kept = 0
    for f in range(faces):
        if plane[f].w != DEAD:
            plane[kept] = plane[f]
            corner0[kept] = corner0[f]
            corner1[kept] = corner1[f]
            corner2[kept] = corner2[f]
            kept += 1
    return kept


@k.func
def penetrate(m: Model, a: Convex, b: Convex, rel: k.vec3, w, on_a, n, tolerance) -> Penetration:
    """The shortest translation that separates the cores, from the simplex that GJK left in w, on_a (length 40)."""
    out = Penetration()
    out.depth = FAR
    size = 0.0
    n = seed(m, a, b, rel, w, on_a, n)
    if n < 4:
        return out
    for i in range(4):
        size = max(size, k.length(w[i]))
    corner0 = k.zeros(shape=80, dtype=int)
    corner1 = k.zeros(shape=80, dtype=int)
    corner2 = k.zeros(shape=80, dtype=int)
    plane = k.zeros(shape=80, dtype=k.vec4)
    edge0 = k.zeros(shape=80, dtype=int)
    edge1 = k.zeros(shape=80, dtype=int)
    # each round adds the fan from corner `top` over the horizon; the first one adds the faces of the tetrahedron
    faces = 0
    edges = 4
    top = 0
    for step in range(MAX_STEPS):
        for e in range(edges):
            if faces < MAX_FACES:
                i0 = top
                i1 = edge0[e]
                i2 = edge1[e]
                if step == 0:
                    i0 = 1 if e == 3 else 0
                    i1 = 1 if e == 0 else (2 if e == 2 else 3)
                    i2 = 2 if e == 0 or e == 3 else (1 if e == 1 else 3)
                corner0[faces] = i0
                corner1[faces] = i1
                corner2[faces] = i2
                plane[faces] = face_plane(w, i0, i1, i2)
                faces += 1
        nearest = 0
        for f in range(faces):
            if plane[f].w < plane[nearest].w:
                nearest = f
        q = plane[nearest]
        d = k.vec3(q.x, q.y, q.z)
        if q.w >= FAR:
            break
        pa = support(m, a, -d)
        p = support(m, b, d) + rel - pa
        # along any d the cores overlap by p·d: an upper bound of the depth, q.w is a lower one
        if k.dot(p, d) < out.depth:
            out.found = True
            out.normal = -d
            out.depth = k.dot(p, d)
            c0 = corner0[nearest]
            c1 = corner1[nearest]
            c2 = corner2[nearest]
            u = triangle_weights(w[c0], w[c1], w[c2])
            out.on_a = on_a[c0] * u.x + on_a[c1] * u.y + on_a[c2] * u.z
        if out.depth - q.w <= tolerance or n == MAX_CORNERS:
            break
        w[n] = p
        on_a[n] = pa
        top = n
        n += 1
        size = max(size, k.length(p))
        edges = horizon(plane, corner0, corner1, corner2, faces, nearest, p, SEE * size, edge0, edge1)
        if edges == 0:
            break
        faces = drop_dead(plane, corner0, corner1, corner2, faces)
    return out
