"""Small scalar functions: clamping, interpolation, signs, classification, angles."""

from engine.compiler.library.primitives import maximum, minimum, popcount
from engine.compiler.library.registry import builtin
from engine.compiler.types import AnyFloat, AnyInt, AnyScalar, int32


@builtin("clamp")
def clamp(x: AnyScalar, low: AnyScalar, high: AnyScalar):
    """x kept between low and high; high where low > high."""
    return minimum(maximum(x, low), high)


@builtin("bit_count")
def bit_count(x: AnyInt):
    """Number of one bits, int32 whatever the type of x."""
    return int32(popcount(x))


@builtin("saturate")
def saturate(x: AnyFloat):
    """x kept between 0 and 1."""
    return minimum(maximum(x, 0.0), 1.0)


@builtin("sign")
def sign(x: AnyScalar):
    """-1 where x is negative, else 1."""
    one = type(x)(1)
    return -one if x < 0 else one


@builtin("lerp")
def lerp(a, b, t: AnyFloat):
    """a (1 - t) + b t, for scalars and vectors."""
    return a * (1.0 - t) + b * t


@builtin("step")
def step(x: AnyScalar):
    """1 where x is negative, else 0."""
    return type(x)(1) if x < type(x)(0) else type(x)(0)


@builtin("nonzero")
def nonzero(x: AnyScalar):
    """0 where x is 0, else 1."""
    return type(x)(0) if x == 0 else type(x)(1)


@builtin("smoothstep")
def smoothstep(a: AnyFloat, b: AnyFloat, x: AnyFloat):
    """0 below a, 1 above b, a cubic between."""
    t = minimum(maximum((x - a) / (b - a), 0.0), 1.0)
    return t * t * (3.0 - 2.0 * t)


@builtin("div_approx")
def div_approx(a, b: AnyFloat):
    """a / b. The quotient is correctly rounded here; Warp's may be off by two units in the last place."""
    return a / b


@builtin("degrees")
def degrees(x: AnyFloat):
    """Radians as degrees."""
    return x * 57.29577951308232


@builtin("radians")
def radians(x: AnyFloat):
    """Degrees as radians."""
    return x * 0.017453292519943295


@builtin("isnan")
def isnan(x: AnyFloat):
    """Whether x is not a number."""
    return x != x


@builtin("isinf")
def isinf(a: AnyFloat):
    """Whether a is infinite."""
    return a == a and a - a != 0.0


@builtin("isfinite")
def isfinite(x: AnyFloat):
    """Whether x is neither infinite nor NaN."""
    return x - x == 0.0
