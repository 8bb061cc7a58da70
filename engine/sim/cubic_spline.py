"""The smoothing kernel of fluids: the cubic spline (Monaghan 1992), and its slope, of the squared distance.

With q = r / support, p = max(1 − q, 0) and t = max(1 − 2q, 0) it is 2p³ − t³ times 8 / (π support³), and its derivative
by q is −6 (p² − t²) times that: no case is asked for. Sweeps over neighbours wait for what depends on one another more
than for what they count, so that the shortest way from a distance to its weight is the quickest.
"""

from engine.compiler import lang as k


@k.func
def inverse_root(x: float) -> float:
    """1/√x within 1.1e-6 of it, on every device the same: a third of the time of a root and a division.

    A first guess by the exponent, within 4 %, and one step of third order with the best coefficients for such guesses.
    """
    guess = k.bitcast(1597460928 - (k.bitcast(x, k.int32) >> 1), k.float32)
    off = 1.0 - x * guess * guess
    return guess + guess * off * (0.49999993 + off * (0.37605954 + off * 0.31322633))


@k.func_grad(inverse_root)
def inverse_root_gradient(x: float, adj_ret: float):
    y = inverse_root(x)
    k.adjoint[x] += k.select(x > 0.0, -0.5 * y * y * y * adj_ret, 0.0)


@k.func
def weight(gap_sq: float, support: float) -> float:
    """The cubic spline W in 1/m³, at the root of gap_sq (m²); 0 beyond the support."""
    return weight_shape(gap_sq, support) * weight_scale(support)


@k.func
def weight_shape(gap_sq: float, support: float) -> float:
    """`weight` over `weight_scale`."""
    inverse = inverse_root(gap_sq)
    p = k.select_max(1.0 - gap_sq * (1.0 / support) * inverse, 0.0)
    t = k.select_max(1.0 - gap_sq * (2.0 / support) * inverse, 0.0)
    return 2.0 * p * (p * p) - t * (t * t)


@k.func
def weight_scale(support: float) -> float:
    return 2.546479089470325 / (support * support * support)


@k.func
def slope(gap_sq: float, support: float) -> float:
    """W'(r) / r in 1/m⁵: the gradient of W is this times the gap (m); 0 beyond the support.

    Right within 1e-6 of the steepest once it is multiplied by the gap; nearer than a millionth of the support the
    quotient itself has no digits left.
    """
    return bend(gap_sq, support) * slope_scale(support)


@k.func
def bend(gap_sq: float, support: float) -> float:
    """`slope` over `slope_scale`: sums over neighbours multiply by that once, at the end. 1/m."""
    inverse = inverse_root(gap_sq)
    p = k.select_max(1.0 - gap_sq * (1.0 / support) * inverse, 0.0)
    t = k.select_max(1.0 - gap_sq * (2.0 / support) * inverse, 0.0)
    return (p * p - t * t) * inverse


@k.func
def slope_scale(support: float) -> float:
    square = support * support
    return -15.278874536821951 / (square * square)
