"""Convex shapes as their support functions: farthest points, and the face, edge or corner that faces a direction.

A sphere is a point and a capsule a segment, each widened by a ball (`radius`); the other shapes have radius 0.
All results are relative to the shape's origin, in world axes.
"""

from engine.compiler import lang as k
from engine.geom.placed import Placed
from engine.geom.shapes import ShapeType
from engine.state.model import Model

SPHERE = int(ShapeType.SPHERE)
CAPSULE = int(ShapeType.CAPSULE)
BOX = int(ShapeType.BOX)
CYLINDER = int(ShapeType.CYLINDER)
CONE = int(ShapeType.CONE)
ELLIPSOID = int(ShapeType.ELLIPSOID)
HULL = int(ShapeType.HULL)

# Corners of the polygon that stands for a disc, and the largest number of corners of a face that is clipped.
DISC_CORNERS = 8
MAX_CORNERS = 16

# cos and sin of 45°
DIAGONAL = 0.70710678


@k.struct
class Convex:
    rot: k.mat33
    size: k.vec3
    kind: int
    radius: float  # of the ball that widens the core, m
    first: int  # hull: first vertex
    count: int  # hull: number of vertices
    hull: int


@k.func
def convex_of(m: Model, shape: Placed, index) -> Convex:
    c = Convex()
    c.rot = shape.rot
    c.size = shape.size
    c.kind = shape.kind
    if shape.kind == SPHERE or shape.kind == CAPSULE:
        c.radius = shape.size.x
    elif shape.kind == HULL:
        c.hull = m.shape_hull[index]
        c.first = m.hull_vertex_start[c.hull]
        c.count = m.hull_vertex_count[c.hull]
    return c


@k.func
def support(m: Model, c: Convex, direction: k.vec3) -> k.vec3:
    """The point of the core that is farthest in `direction`."""
    d = k.transpose(c.rot) * direction
    p = k.vec3(0.0)
    if c.kind == HULL:
        far = -3.0e38
        best = c.first
        for i in range(c.first, c.first + c.count):
            x = k.dot(d, m.hull_vertex[i])
            if x > far:
                far = x
                best = i
        p = m.hull_vertex[best]
    elif c.kind == BOX:
        p = k.vec3(
            c.size.x if d.x > 0.0 else -c.size.x,
            c.size.y if d.y > 0.0 else -c.size.y,
            c.size.z if d.z > 0.0 else -c.size.z,
        )
    elif c.kind == CAPSULE:
        p = k.vec3(0.0, 0.0, c.size.y if d.z > 0.0 else -c.size.y)
    elif c.kind == ELLIPSOID:
        s = k.vec3(d.x * c.size.x, d.y * c.size.y, d.z * c.size.z)
        s = s / k.sqrt(max(k.dot(s, s), 1.0e-30))
        p = k.vec3(s.x * c.size.x, s.y * c.size.y, s.z * c.size.z)
    elif c.kind == CYLINDER or c.kind == CONE:
        across = k.sqrt(d.x * d.x + d.y * d.y)
        if c.kind == CONE and c.size.y * d.z > -c.size.y * d.z + c.size.x * across:
            p = k.vec3(0.0, 0.0, c.size.y)
        else:
            scale = c.size.x / across if across > 1.0e-12 else 0.0
            up = d.z > 0.0 and c.kind == CYLINDER
            p = k.vec3(d.x * scale, d.y * scale, c.size.y if up else -c.size.y)
    return c.rot * p


@k.func
def box_face(c: Convex, d: k.vec3, poly) -> int:
    """Corners of the face whose outward normal is nearest to d (shape frame), counter-clockwise from outside."""
    j = 0
    if abs(d.y) > abs(d.x):
        j = 1
    if abs(d.z) > abs(d[j]):
        j = 2
    k1 = (j + 1) % 3
    k2 = (j + 2) % 3
    sign = 1.0 if d[j] > 0.0 else -1.0
    for i in range(4):
        x = 1.0 if i == 1 or i == 2 else -1.0
        y = 1.0 if i >= 2 else -1.0
        p = k.vec3(0.0)
        p[j] = sign * c.size[j]
        p[k1] = x * sign * c.size[k1]
        p[k2] = y * c.size[k2]
        poly[i] = c.rot * p
    return 4


@k.func
def hull_face(m: Model, c: Convex, d: k.vec3) -> int:
    """The face (index in hull_face_*) whose outward normal is nearest to d (shape frame)."""
    start = m.hull_face_start[c.hull]
    best = start
    far = -3.0e38
    for f in range(start, start + m.hull_face_count[c.hull]):
        plane = m.hull_face_plane[f]
        x = plane.x * d.x + plane.y * d.y + plane.z * d.z
        if x > far:
            far = x
            best = f
    return best


@k.func
def hull_corners(m: Model, c: Convex, face, poly) -> int:
    """Corners of a hull's face; of one with more than MAX_CORNERS, as many spread evenly."""
    start = m.hull_face_index_start[face]
    count = m.hull_face_index_count[face]
    n = min(count, MAX_CORNERS)
    for i in range(n):
        corner = m.hull_index[start + (i * count) // n]
        poly[i] = c.rot * m.hull_vertex[c.first + corner]
    return n


@k.func
def disc_corners(c: Convex, d: k.vec3, z, flip, poly) -> int:
    """The disc at height z as a polygon with a corner in the direction of d; flip = −1 turns it the other way round."""
    across = k.sqrt(d.x * d.x + d.y * d.y)
    x = c.size.x
    y = 0.0
    if across > 0.05:
        x = d.x * c.size.x / across
        y = d.y * c.size.x / across
    for i in range(DISC_CORNERS):
        poly[i] = c.rot * k.vec3(x, y, z)
        turned = (x - flip * y) * DIAGONAL
        y = (flip * x + y) * DIAGONAL
        x = turned
    return DISC_CORNERS


@k.func
def facing_polygon(m: Model, c: Convex, direction: k.vec3, poly) -> int:
    """Corners of the face (≥ 3, counter-clockwise from outside), edge (2) or corner (1) of the core that faces
    `direction`; returns how many."""
    d = k.transpose(c.rot) * direction
    n = 1
    if c.kind == BOX:
        n = box_face(c, d, poly)
    elif c.kind == HULL:
        n = hull_corners(m, c, hull_face(m, c, d), poly)
    elif c.kind == CAPSULE:
        poly[0] = c.rot * k.vec3(0.0, 0.0, -c.size.y)
        poly[1] = c.rot * k.vec3(0.0, 0.0, c.size.y)
        n = 2
    elif c.kind == CYLINDER or c.kind == CONE:
        across = k.sqrt(d.x * d.x + d.y * d.y)
        if c.kind == CYLINDER and abs(d.z) > across:
            up = 1.0 if d.z > 0.0 else -1.0
            n = disc_corners(c, d, up * c.size.y, up, poly)
        elif c.kind == CONE and -d.z > across:
            n = disc_corners(c, d, -c.size.y, -1.0, poly)
        else:
            scale = c.size.x / max(across, 1.0e-12)
            top = scale if c.kind == CYLINDER else 0.0
            poly[0] = c.rot * k.vec3(d.x * scale, d.y * scale, -c.size.y)
            poly[1] = c.rot * k.vec3(d.x * top, d.y * top, c.size.y)
            n = 2
    else:
        poly[0] = support(m, c, direction)
    return n


@k.func
def facing_normal(m: Model, c: Convex, direction: k.vec3) -> k.vec3:
    """The outward unit normal of the flat face, or of a cylinder's or cone's side, nearest to `direction`; zero for
    round shapes."""
    d = k.transpose(c.rot) * direction
    out = k.vec3(0.0)
    if c.kind == BOX:
        j = 0
        if abs(d.y) > abs(d.x):
            j = 1
        if abs(d.z) > abs(d[j]):
            j = 2
        out[j] = 1.0 if d[j] > 0.0 else -1.0
    elif c.kind == HULL:
        plane = m.hull_face_plane[hull_face(m, c, d)]
        out = k.vec3(plane.x, plane.y, plane.z)
    elif c.kind == CYLINDER or c.kind == CONE:
        across = k.sqrt(d.x * d.x + d.y * d.y)
        if c.kind == CYLINDER and abs(d.z) > across:
            out.z = 1.0 if d.z > 0.0 else -1.0
        elif c.kind == CONE and -d.z > across:
            out.z = -1.0
        elif across > 1.0e-6:
            slope = 0.0
            if c.kind == CONE:
                slope = 0.5 * c.size.x / c.size.y
            scale = 1.0 / k.sqrt(1.0 + slope * slope)
            out = k.vec3(d.x / across, d.y / across, slope) * scale
    return c.rot * out
