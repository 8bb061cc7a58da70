"""Where two line segments come closest, in kernels."""

# mypy: disable-error-code="index, misc, no-redef, operator"
# (overloads, and operators of values, mean something to the kernel compiler only)

from engine.compiler import lang as k

PARALLEL = 1.0e-24  # squared sine of the angle between edges, below which float64 does not know it
vec3d = k.vec3d


@k.func
def share(numerator: k.float64, length2: k.float64) -> k.float64:
    """Their quotient within 0 … 1."""
    return k.clamp(numerator / length2, k.float64(0.0), k.float64(1.0))


@k.func
def closest_point_edge_edge(p1: vec3d, q1: vec3d, p2: vec3d, q2: vec3d, epsilon: k.float64 = 0.0) -> vec3d:
    """(s, t, distance) where the segments p1 … q1 and p2 … q2 come closest: at p1 + s (q1 − p1) and p2 + t (q2 − p2).

    epsilon: a segment whose squared length is not above it is its first point, s or t 0. Of parallel segments, which
    are as close in many places, one is taken where s is 0, or else t 0 or 1. Numbers that are not finite give NaN.
    Gradients are those of the true minimum: of the distance they are bounded by 1, of s and t they grow as the
    segments become parallel, and are 0 for those that are.

    Ericson 2005, "Real-Time Collision Detection", 5.1.9, with cross products in place of differences of products.
    """
    zero, one = k.float64(0.0), k.float64(1.0)
    d1, d2, r = q1 - p1, q2 - p2, p1 - p2
    a, e = k.dot(d1, d1), k.dot(d2, d2)
    s, t = zero, zero
    if a > epsilon and e > epsilon:
        b, c, f = k.dot(d1, d2), k.dot(d1, r), k.dot(d2, r)
        n = k.cross(d1, d2)
        n2 = k.dot(n, n)
        if n2 > k.float64(PARALLEL) * a * e:
            s = share(k.dot(n, k.cross(d2, r)), n2)
        t = (b * s + f) / e
        if t < zero:
            t = zero
            s = share(-c, a)
        elif t > one:
            t = one
            s = share(b - c, a)
    elif a > epsilon:
        s = share(-k.dot(d1, r), a)
    elif e > epsilon:
        t = share(k.dot(d2, r), e)
    return vec3d(s, t, k.length(r + d1 * s - d2 * t))


@k.func_grad(closest_point_edge_edge)
def closest_point_edge_edge_gradient(p1: vec3d, q1: vec3d, p2: vec3d, q2: vec3d, epsilon: k.float64, adj_ret: vec3d):
    """By the conditions of the minimum: a s − b t + c = 0 where s is within its bounds, e t − b s − f = 0 likewise t.

    The distance does not change with s and t to first order, so that it is differentiated as if they were constant.
    """
    zero, one = k.float64(0.0), k.float64(1.0)
    found = closest_point_edge_edge(p1, q1, p2, q2, epsilon)
    s, t, distance = found[0], found[1], found[2]
    d1, d2, r = q1 - p1, q2 - p2, p1 - p2
    a, b, e = k.dot(d1, d1), k.dot(d1, d2), k.dot(d2, d2)
    free_s, free_t = s > zero and s < one, t > zero and t < one
    x, y = zero, zero  # how much the conditions matter
    if free_s and free_t:
        n = k.cross(d1, d2)
        n2 = k.dot(n, n)
        if n2 > k.float64(PARALLEL) * a * e:
            x = (e * adj_ret[0] + b * adj_ret[1]) / n2
            y = (b * adj_ret[0] + a * adj_ret[1]) / n2
    elif free_s:
        x = adj_ret[0] / a
    elif free_t:
        y = adj_ret[1] / e
    away = vec3d()
    if distance > zero:
        away = (r + d1 * s - d2 * t) * (adj_ret[2] / distance)
    # through a, b, c, e, f of the conditions, and through the difference of the closest points
    by_b = x * t + y * s
    by_d1 = d1 * (k.float64(-2.0) * x * s) + d2 * by_b - r * x + away * s
    by_d2 = d2 * (k.float64(-2.0) * y * t) + d1 * by_b + r * y - away * t
    by_r = d2 * y - d1 * x + away
    k.adjoint[p1] += by_r - by_d1
    k.adjoint[q1] += by_d1
    k.adjoint[p2] += -by_r - by_d2
    k.adjoint[q2] += by_d2


@k.func
def closest_point_edge_edge(p1: k.vec3, q1: k.vec3, p2: k.vec3, q2: k.vec3, epsilon: float = 0.0) -> k.vec3:
    found = closest_point_edge_edge(vec3d(p1), vec3d(q1), vec3d(p2), vec3d(q2), k.float64(epsilon))
    return k.vec3(found)
