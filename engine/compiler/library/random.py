"""Random numbers from a 32-bit state, counter-based: the sequence that Warp gives for the same seed.

The state is a uint32 that every draw advances by a permuted congruential step (PCG-RXS-M-XS-32: O'Neill 2014;
Jarzynski and Olano, "Hash functions for GPU rendering", 2020). Equal seeds give equal numbers everywhere.
"""

from engine.compiler.library.constructors import static
from engine.compiler.library.primitives import absolute, floor, select_max, sqrt
from engine.compiler.library.registry import builtin, library_function, name_of
from engine.compiler.library.searching import lower_bound_within
from engine.compiler.types import Array, float32, int32, uint32
from engine.compiler.values import vector

sincos, cos, acos, log, exp, cbrt = (name_of(name) for name in ("sincos", "cos", "acos", "log", "exp", "cbrt"))
vec2, vec3 = vector(2, float32), vector(3, float32)

TWO_PI = 6.283185307179586
UNIT = 1.0 / 16777216.0  # 2**-24: one step of a uniform number


@library_function
def advance(state: uint32):
    """The next state: a congruential step, then a permutation of its bits."""
    stepped = state * uint32(747796405) + uint32(2891336453)
    mixed = ((stepped >> ((stepped >> uint32(28)) + uint32(4))) ^ stepped) * uint32(277803737)
    return (mixed >> uint32(22)) ^ mixed


@library_function
def uniform(state: uint32):
    """A number from 0 up to but not including 1, from the upper 24 bits of a state."""
    return float32(state >> uint32(8)) * float32(UNIT)


@library_function
def draw(state: uint32):
    """(next state, uniform number)."""
    new = advance(state)
    return new, uniform(new)


# --- numbers --------------------------------------------------------------------------------------------------------


@builtin("rand_init")
def rand_init(seed: int32):
    """The state of a sequence: `rand_init(seed)`, or `rand_init(seed, i)` for one of many independent sequences."""
    return advance(uint32(seed))


@builtin("rand_init")
def rand_init_offset(seed: int32, offset: int32):
    return advance(uint32(seed) + advance(uint32(offset)))


@builtin("randi", updates=(0,))
def randi(state: uint32):
    """A random int32; with `low` and `high`, one from low up to but not including high."""
    new = advance(state)
    return new, int32(new)


@builtin("randi", updates=(0,))
def randi_range(state: uint32, low: int32, high: int32):
    new = advance(state)
    return new, int32(new % uint32(high - low) + uint32(low))


@builtin("randu", updates=(0,))
def randu(state: uint32):
    """A random uint32; with `low` and `high`, one from low up to but not including high."""
    new = advance(state)
    return new, new


@builtin("randu", updates=(0,))
def randu_range(state: uint32, low: uint32, high: uint32):
    new = advance(state)
    return new, new % (high - low) + low


@builtin("randf", updates=(0,))
def randf(state: uint32):
    """A uniform random float32 from 0 up to but not including 1; with `low` and `high`, between these."""
    new = advance(state)
    return new, uniform(new)


@builtin("randf", updates=(0,))
def randf_range(state: uint32, low: float32, high: float32):
    new = advance(state)
    return new, (high - low) * uniform(new) + low


@library_function
def draw_normal(state: uint32):
    """(next state, normal number): Box and Muller 1958. Half a step stands for 0, whose logarithm is not finite."""
    state, u = draw(state)
    state, v = draw(state)
    return state, sqrt(float32(-2.0) * log(select_max(u, float32(UNIT * 0.5)))) * cos(float32(TWO_PI) * v)


@builtin("randn", updates=(0,))
def randn(state: uint32):
    """A normally distributed float32 with mean 0 and variance 1."""
    return draw_normal(state)


# --- points -----------------------------------------------------------------------------------------------------------


@builtin("sample_triangle", updates=(0,))
def sample_triangle(state: uint32):
    """Barycentric coordinates (u, v) of a point uniform in a triangle."""
    state, a = draw(state)
    state, b = draw(state)
    r = sqrt(a)
    return state, vec2(float32(1.0) - r, b * r)


@library_function
def on_circle(u):
    """The point of the unit circle at the turn u."""
    s, c = sincos(float32(TWO_PI) * u)
    return vec2(c, s)


@library_function
def on_sphere(z, u):
    """The point of the unit sphere at height z and the turn u."""
    p = on_circle(u)
    r = sqrt(select_max(float32(1.0) - z * z, float32(0.0)))
    return vec3(r * p.x, r * p.y, z)


@builtin("sample_unit_ring", updates=(0,))
def sample_unit_ring(state: uint32):
    """A point uniform on the unit circle."""
    state, u = draw(state)
    return state, on_circle(u)


@builtin("sample_unit_disk", updates=(0,))
def sample_unit_disk(state: uint32):
    """A point uniform in the unit disk."""
    state, a = draw(state)
    state, u = draw(state)
    return state, on_circle(u) * sqrt(a)


@builtin("sample_unit_sphere_surface", updates=(0,))
def sample_unit_sphere_surface(state: uint32):
    """A point uniform on the unit sphere."""
    state, a = draw(state)
    state, u = draw(state)
    return state, on_sphere(float32(1.0) - float32(2.0) * a, u)


@builtin("sample_unit_sphere", updates=(0,))
def sample_unit_sphere(state: uint32):
    """A point uniform in the unit ball."""
    state, a = draw(state)
    state, u = draw(state)
    state, b = draw(state)
    return state, on_sphere(float32(1.0) - float32(2.0) * a, u) * cbrt(b)


@builtin("sample_unit_hemisphere_surface", updates=(0,))
def sample_unit_hemisphere_surface(state: uint32):
    """A point uniform on the half of the unit sphere with z ≥ 0."""
    state, a = draw(state)
    state, u = draw(state)
    return state, on_sphere(float32(1.0) - a, u)


@builtin("sample_unit_hemisphere", updates=(0,))
def sample_unit_hemisphere(state: uint32):
    """A point uniform in the half of the unit ball with z ≥ 0."""
    state, a = draw(state)
    state, u = draw(state)
    state, b = draw(state)
    return state, on_sphere(float32(1.0) - a, u) * cbrt(b)


@builtin("sample_unit_square", updates=(0,))
def sample_unit_square(state: uint32):
    """A point uniform in the square of side 1 about the origin."""
    state, a = draw(state)
    state, b = draw(state)
    return state, vec2(a - float32(0.5), b - float32(0.5))


@builtin("sample_unit_cube", updates=(0,))
def sample_unit_cube(state: uint32):
    """A point uniform in the cube of side 1 about the origin."""
    state, a = draw(state)
    state, b = draw(state)
    state, c = draw(state)
    return state, vec3(a - float32(0.5), b - float32(0.5), c - float32(0.5))


@library_function
def draw_signed(state: uint32):
    """(next state, uniform number from −1 up to but not including 1)."""
    new = advance(state)
    return new, float32(2.0) * uniform(new) - float32(1.0)


# --- discrete distributions -------------------------------------------------------------------------------------------


@builtin("sample_cdf", updates=(0,))
def sample_cdf(state: uint32, cdf: Array(float32)):
    """The index of a bin, by ascending cumulative probabilities: the first that is not below a uniform number."""
    state, u = draw(state)
    return state, lower_bound_within(cdf, 0, len(cdf), u)


# Stirling's series of log Γ: B(2k) / (2k (2k − 1)) for k = 1 … 5 (Abramowitz and Stegun 6.1.40)
STIRLING = (1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0)


@library_function
def log_factorial(n: float32):
    """log n! for n ≥ 0, by Stirling's series at an argument of at least 7."""
    x, product = n + float32(1.0), float32(1.0)
    while x < float32(7.0):
        product = product * x
        x = x + float32(1.0)
    inverse = float32(1.0) / x
    square = inverse * inverse
    s = float32(static(STIRLING)[4])
    for k in range(3, -1, -1):
        s = s * square + float32(static(STIRLING)[k])
    half_log_two_pi = float32(0.9189385332046727)
    return (x - float32(0.5)) * log(x) - x + half_log_two_pi + s * inverse - log(product)


@library_function
def poisson_small(state: uint32, lam: float32):
    """Knuth 1969: how many uniform numbers can be multiplied until the product falls to exp(−lam)."""
    limit = exp(-lam)
    count, product = uint32(0), float32(1.0)
    state, u = draw(state)
    product = u
    while product > limit:
        count = count + uint32(1)
        state, u = draw(state)
        product = product * u
    return state, count


@library_function
def poisson_large(state: uint32, lam: float32):
    """Transformed rejection with squeeze (Hörmann 1993, algorithm PTRS), for lam ≥ 10."""
    root, log_lam = sqrt(lam), log(lam)
    b = float32(0.931) + float32(2.53) * root
    a = float32(-0.059) + float32(0.02483) * b
    inverse_alpha = float32(1.1239) + float32(1.1328) / (b - float32(3.4))
    squeeze = float32(0.9277) - float32(3.6224) / (b - float32(2.0))
    found, count = False, float32(0.0)
    while not found:
        state, u = draw(state)
        state, v = draw(state)
        u = u - float32(0.5)
        us = float32(0.5) - absolute(u)
        count = floor((float32(2.0) * a / us + b) * u + lam + float32(0.43))
        if us >= float32(0.07) and v <= squeeze:
            found = True
        elif count >= float32(0.0) and (us >= float32(0.013) or v <= us):
            left = log(v) + log(inverse_alpha) - log(a / (us * us) + b)
            found = left <= count * log_lam - lam - log_factorial(count)
    return state, uint32(count)


@builtin("poisson", updates=(0,))
def poisson(state: uint32, lam: float32):
    """A uint32 from the Poisson distribution with mean `lam` ≥ 0; 0 for a mean that is negative or NaN."""
    count = uint32(0)
    if lam >= float32(10.0):
        state, count = poisson_large(state, lam)
    elif lam > float32(0.0):
        state, count = poisson_small(state, lam)
    return state, count
