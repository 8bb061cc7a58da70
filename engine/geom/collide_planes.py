"""Infinite plane against every convex shape: the lowest points of the shape below the plane's reach."""

from engine.compiler import lang as k
from engine.geom.manifold import reduce_points, store_manifold, store_nothing
from engine.geom.placed import Placed, contact_reach
from engine.geom.shapes import ShapeType
from engine.state.model import Contacts, Model

SPHERE = int(ShapeType.SPHERE)
CAPSULE = int(ShapeType.CAPSULE)
BOX = int(ShapeType.BOX)
CYLINDER = int(ShapeType.CYLINDER)
CONE = int(ShapeType.CONE)
ELLIPSOID = int(ShapeType.ELLIPSOID)
HULL = int(ShapeType.HULL)
PLANE = int(ShapeType.PLANE)

# A disc whose lowest direction is shorter than this (sine of its tilt) touches with the corners of a fixed square.
FLAT_DISC = 1.0e-3


@k.func
def add_point(pos, sep, feat, n, reach, point: k.vec3, height, normal: k.vec3, feature):
    """Appends a surface point at `height` over the plane (both relative to the shape), moved midway to the plane."""
    if height <= reach:
        pos[n] = point - normal * (0.5 * height)
        sep[n] = height
        feat[n] = feature
        n += 1
    return n


@k.func
def lowest_rim(axis_x: k.vec3, axis_y: k.vec3, normal: k.vec3, radius) -> k.vec3:
    """From the centre of a disc to its lowest rim point."""
    x = k.dot(axis_x, normal)
    y = k.dot(axis_y, normal)
    tilt = k.sqrt(x * x + y * y)
    if tilt < FLAT_DISC:
        return axis_x * radius
    return (axis_x * x + axis_y * y) * (-radius / tilt)


@k.func
def round_points(pos, sep, feat, shape: Placed, normal: k.vec3, h0, reach):
    """Sphere, capsule and ellipsoid. h0: height of the shape's origin over the plane."""
    n = 0
    r = shape.size.x
    if shape.kind == SPHERE:
        n = add_point(pos, sep, feat, n, reach, normal * -r, h0 - r, normal, 1)
    elif shape.kind == CAPSULE:
        axis = k.vec3(shape.rot[0, 2], shape.rot[1, 2], shape.rot[2, 2]) * shape.size.y
        up = k.dot(axis, normal)
        n = add_point(pos, sep, feat, n, reach, normal * -r - axis, h0 - r - up, normal, 1)
        n = add_point(pos, sep, feat, n, reach, axis - normal * r, h0 - r + up, normal, 2)
    else:
        local = k.transpose(shape.rot) * normal
        s = k.vec3(local.x * shape.size.x, local.y * shape.size.y, local.z * shape.size.z)
        down = k.vec3(s.x * shape.size.x, s.y * shape.size.y, s.z * shape.size.z) * (-1.0 / k.length(s))
        n = add_point(pos, sep, feat, n, reach, shape.rot * down, h0 - k.length(s), normal, 1)
    return n


@k.func
def box_points(pos, sep, feat, shape: Placed, normal: k.vec3, h0, reach):
    """The four corners of the face turned most against the normal."""
    n = 0
    down = k.transpose(shape.rot) * normal
    j = 0
    if abs(down.y) > abs(down.x):
        j = 1
    if abs(down.z) > abs(down[j]):
        j = 2
    side = 0 if down[j] > 0.0 else 1
    for i in range(4):
        k1 = (j + 1) % 3
        k2 = (j + 2) % 3
        corner = (side << j) | ((i & 1) << k1) | ((i >> 1) << k2)
        local = k.vec3(
            shape.size.x if corner & 1 == 1 else -shape.size.x,
            shape.size.y if corner & 2 == 2 else -shape.size.y,
            shape.size.z if corner & 4 == 4 else -shape.size.z,
        )
        n = add_point(pos, sep, feat, n, reach, shape.rot * local, h0 + k.dot(down, local), normal, 1 + corner)
    return n


@k.func
def disc_points(pos, sep, feat, shape: Placed, normal: k.vec3, h0, reach):
    """Cylinder: four rim points of the lower end and the lowest of the other. Cone: of the base, and the tip."""
    n = 0
    x = k.vec3(shape.rot[0, 0], shape.rot[1, 0], shape.rot[2, 0])
    y = k.vec3(shape.rot[0, 1], shape.rot[1, 1], shape.rot[2, 1])
    z = k.vec3(shape.rot[0, 2], shape.rot[1, 2], shape.rot[2, 2])
    radius = shape.size.x
    low = lowest_rim(x, y, normal, radius)
    across = k.cross(z, low)
    end = z * -shape.size.y
    if shape.kind == CYLINDER and k.dot(end, normal) > 0.0:
        end = -end
    for i in range(4):
        d = low if i & 1 == 0 else across
        p = end + (d if i < 2 else -d)
        n = add_point(pos, sep, feat, n, reach, p, h0 + k.dot(p, normal), normal, 1 + i)
    p = low - end if shape.kind == CYLINDER else -end
    return add_point(pos, sep, feat, n, reach, p, h0 + k.dot(p, normal), normal, 5)


@k.func
def hull_points(m: Model, pos, sep, feat, hull, rot: k.mat33, normal: k.vec3, h0, reach):
    """The vertices within reach: the lowest, the one farthest from it, the widest on either side of their line."""
    start = m.hull_vertex_start[hull]
    count = m.hull_vertex_count[hull]
    down = k.transpose(rot) * normal
    i0 = 0
    low = 3.0e38
    for i in range(count):
        h = k.dot(down, m.hull_vertex[start + i])
        if h < low:
            low = h
            i0 = i
    if h0 + low > reach:
        return 0
    v0 = m.hull_vertex[start + i0]
    i1 = i0
    far = 0.0
    for i in range(count):
        v = m.hull_vertex[start + i]
        if h0 + k.dot(down, v) <= reach:
            d = v - v0
            d = d - down * k.dot(d, down)
            dist = k.dot(d, d)
            if dist > far:
                far = dist
                i1 = i
    side = k.cross(down, m.hull_vertex[start + i1] - v0)
    i2 = i0
    i3 = i0
    left = 1.0e-6 * far
    right = -left
    for i in range(count):
        v = m.hull_vertex[start + i]
        if h0 + k.dot(down, v) <= reach:
            area = k.dot(side, v - v0)
            if area > left:
                left = area
                i2 = i
            if area < right:
                right = area
                i3 = i
    n = 0
    for j in range(4):
        i = i0
        if j == 1:
            i = i1
        elif j == 2:
            i = i2
        elif j == 3:
            i = i3
        if j == 0 or i != i0:
            v = m.hull_vertex[start + i]
            n = add_point(pos, sep, feat, n, reach, rot * v, h0 + k.dot(down, v), normal, 1 + i)
    return n


@k.requires(lambda family_start, family: 0 <= family and family < family_start.shape[0])
@k.kernel
def collide_planes(
    m: Model,
    c: Contacts,
    placed: k.array(dtype=Placed),
    motion: k.array(dtype=k.vec4),
    family_pair: k.array(dtype=int),
    family_start: k.array(dtype=int),
    family: int,
):
    p = family_pair[family_start[family] + k.tid()]
    plane_index = c.pair_shape0[p]
    shape_index = c.pair_shape1[p]
    flipped = placed[plane_index].kind != PLANE
    if flipped:
        plane_index = c.pair_shape1[p]
        shape_index = c.pair_shape0[p]
    plane = placed[plane_index]
    shape = placed[shape_index]
    normal = k.vec3(plane.rot[0, 2], plane.rot[1, 2], plane.rot[2, 2])
    reach = contact_reach(motion[plane_index], motion[shape_index])
    h0 = k.dot(shape.pos - plane.pos, normal)
    pos = k.zeros(shape=8, dtype=k.vec3)
    sep = k.zeros(shape=8, dtype=float)
    feat = k.zeros(shape=8, dtype=int)
    n = 0
    if h0 - m.shape_radius[shape_index] <= reach:
        if shape.kind == BOX:
            n = box_points(pos, sep, feat, shape, normal, h0, reach)
        elif shape.kind == HULL:
            n = hull_points(m, pos, sep, feat, m.shape_hull[shape_index], shape.rot, normal, h0, reach)
        elif shape.kind == CYLINDER or shape.kind == CONE:
            n = disc_points(pos, sep, feat, shape, normal, h0, reach)
            n = reduce_points(pos, sep, feat, n, normal)
        else:
            n = round_points(pos, sep, feat, shape, normal, h0, reach)
    if n == 0:
        store_nothing(c, p)
    else:
        if flipped:
            normal = -normal
        store_manifold(c, p, shape.pos, normal, pos, sep, feat, n)
