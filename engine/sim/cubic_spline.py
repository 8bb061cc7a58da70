"""The smoothing kernel of fluids: the cubic spline (Monaghan 1992), and its slope, of the squared distance."""

from engine.compiler import lang as k


@k.func
def weight(gap_sq: float, support: float) -> float:
    """The cubic spline W in 1/m³, at the root of gap_sq (m²)."""
    q = k.sqrt(gap_sq) * (1.0 / support)
    p = 1.0 - q
    value = 2.0 * p * p * p
    if q <= 0.5:
        value = 6.0 * q * q * (q - 1.0) + 1.0
    return value * (2.546479089470325 / (support * support * support))


@k.func
def slope(gap_sq: float, support: float) -> float:
    """W'(r) / r in 1/m⁵: the gradient of W is this times the gap (m)."""
    q = k.sqrt(gap_sq) * (1.0 / support)
    p = 1.0 - q
    value = k.select(q <= 0.5, 2.0 - 3.0 * q, p * p / k.select_max(q, 0.25))
    square = support * support
    return value * (-15.278874536821951 / (square * square * support))
