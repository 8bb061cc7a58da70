"""Gradient noise (Perlin 2002, "Improving noise"): noise, periodic pnoise, and the divergence-free curlnoise.

Each lattice point has a gradient drawn from the state and the point's indices. A corner's contribution, its
derivatives behind it, is one vector (value, d/dx, d/dy …), so that noise and its exact gradient are the same few
lines; what a caller does not use costs nothing.
"""

from engine.compiler.library.constructors import static
from engine.compiler.library.linear import normalize
from engine.compiler.library.primitives import floor
from engine.compiler.library.random import draw_signed, rand_init_offset
from engine.compiler.library.registry import builtin, library_function
from engine.compiler.types import float32, int32, uint32
from engine.compiler.values import vector

vec2, vec3, vec4, vec5 = (vector(n, float32) for n in (2, 3, 4, 5))

# primes that spread lattice indices over the states (Teschner et al. 2003, and one more for the fourth dimension)
P1, P2, P3, P4 = 73856093, 19349663, 83492791, 10000019
# what makes the three fields of the curl in space differ
FIELD_2, FIELD_3 = 10019689, 13112221


@library_function
def fade(t):
    """(s, ds/dt) of 6 t⁵ − 15 t⁴ + 10 t³, whose first two derivatives vanish at 0 and 1."""
    s = t * t * t * (t * (t * float32(6.0) - float32(15.0)) + float32(10.0))
    u = t * (t - float32(1.0))
    return s, float32(30.0) * u * u


@library_function
def blend(a, b, t, axis: int):
    """Between two contributions along an axis; derivatives are those of the blend."""
    s, ds = fade(t)
    out = a + (b - a) * s
    out[axis + 1] = out[axis + 1] + (b[0] - a[0]) * ds
    return out


@library_function
def split(x):
    """(lattice index, fraction) of a coordinate."""
    low = floor(x)
    return int32(low), x - low


@library_function
def wrap(i, period: int32):
    """The lattice index within a period; a period of 0 stands for none."""
    return i % period if period != 0 else i


# --- contributions of one lattice point -------------------------------------------------------------------------------


@library_function
def corner1(state: uint32, i, dx):
    _, g = draw_signed(uint32(i) * uint32(P1) + state)
    return vec2(g * dx, g)


@library_function
def corner2(state: uint32, i, j, dx, dy):
    seed = uint32(i) * uint32(P1) ^ (uint32(j) * uint32(P2) + state)
    seed, x = draw_signed(seed)
    seed, y = draw_signed(seed)
    g = normalize(vec2(x, y))
    return vec3(g.x * dx + g.y * dy, g.x, g.y)


@library_function
def corner3(state: uint32, i, j, k, dx, dy, dz):
    seed = uint32(i) * uint32(P1) ^ uint32(j) * uint32(P2) ^ (uint32(k) * uint32(P3) + state)
    seed, x = draw_signed(seed)
    seed, y = draw_signed(seed)
    seed, z = draw_signed(seed)
    g = normalize(vec3(x, y, z))
    return vec4(g.x * dx + g.y * dy + g.z * dz, g.x, g.y, g.z)


@library_function
def corner4(state: uint32, i, j, k, l, dx, dy, dz, dw):
    seed = uint32(i) * uint32(P1) ^ uint32(j) * uint32(P2) ^ uint32(k) * uint32(P3) ^ (uint32(l) * uint32(P4) + state)
    seed, x = draw_signed(seed)
    seed, y = draw_signed(seed)
    seed, z = draw_signed(seed)
    seed, w = draw_signed(seed)
    g = normalize(vec4(x, y, z, w))
    return vec5(g.x * dx + g.y * dy + g.z * dz + g.w * dw, g.x, g.y, g.z, g.w)


# --- fields: (value, derivatives) at a point --------------------------------------------------------------------------


@library_function
def field1(state: uint32, x, px: int32):
    i, dx = split(x)
    a = corner1(state, wrap(i, px), dx)
    b = corner1(state, wrap(i + 1, px), dx - float32(1.0))
    return blend(a, b, dx, 0)


@library_function
def field2(state: uint32, p, px: int32, py: int32):
    i, dx = split(p.x)
    j, dy = split(p.y)
    low, high = vec3(), vec3()
    for dj in range(2):
        row = wrap(j + dj, py)
        y = dy - float32(dj)
        a = corner2(state, wrap(i, px), row, dx, y)
        b = corner2(state, wrap(i + 1, px), row, dx - float32(1.0), y)
        low, high = high, blend(a, b, dx, 0)
    return blend(low, high, dy, 1)


@library_function
def field3(state: uint32, p, px: int32, py: int32, pz: int32):
    i, dx = split(p.x)
    j, dy = split(p.y)
    k, dz = split(p.z)
    near, far = vec4(), vec4()
    for dk in range(2):
        low, high = vec4(), vec4()
        for dj in range(2):
            row, layer = wrap(j + dj, py), wrap(k + dk, pz)
            y, z = dy - float32(dj), dz - float32(dk)
            a = corner3(state, wrap(i, px), row, layer, dx, y, z)
            b = corner3(state, wrap(i + 1, px), row, layer, dx - float32(1.0), y, z)
            low, high = high, blend(a, b, dx, 0)
        near, far = far, blend(low, high, dy, 1)
    return blend(near, far, dz, 2)


@library_function
def field4(state: uint32, p, px: int32, py: int32, pz: int32, pw: int32):
    i, dx = split(p.x)
    j, dy = split(p.y)
    k, dz = split(p.z)
    l, dw = split(p.w)
    before, after = vec5(), vec5()
    for dl in range(2):
        near, far = vec5(), vec5()
        for dk in range(2):
            low, high = vec5(), vec5()
            for dj in range(2):
                row, layer, time = wrap(j + dj, py), wrap(k + dk, pz), wrap(l + dl, pw)
                y, z, w = dy - float32(dj), dz - float32(dk), dw - float32(dl)
                a = corner4(state, wrap(i, px), row, layer, time, dx, y, z, w)
                b = corner4(state, wrap(i + 1, px), row, layer, time, dx - float32(1.0), y, z, w)
                low, high = high, blend(a, b, dx, 0)
            near, far = far, blend(low, high, dy, 1)
        before, after = after, blend(near, far, dz, 2)
    return blend(before, after, dw, 3)


# --- the names of the language ----------------------------------------------------------------------------------------


@builtin("noise")
def noise1(state: uint32, x: float32):
    """Gradient noise at a point of one to four dimensions, about −1 … 1, zero at whole coordinates."""
    return field1(state, x, 0)[0]


@builtin("noise")
def noise2(state: uint32, xy: vec2):
    return field2(state, xy, 0, 0)[0]


@builtin("noise")
def noise3(state: uint32, xyz: vec3):
    return field3(state, xyz, 0, 0, 0)[0]


@builtin("noise")
def noise4(state: uint32, xyzt: vec4):
    return field4(state, xyzt, 0, 0, 0, 0)[0]


@builtin("pnoise")
def pnoise1(state: uint32, x: float32, px: int32):
    """Gradient noise that repeats after a whole number of units in each dimension."""
    return field1(state, x, px)[0]


@builtin("pnoise")
def pnoise2(state: uint32, xy: vec2, px: int32, py: int32):
    return field2(state, xy, px, py)[0]


@builtin("pnoise")
def pnoise3(state: uint32, xyz: vec3, px: int32, py: int32, pz: int32):
    return field3(state, xyz, px, py, pz)[0]


@builtin("pnoise")
def pnoise4(state: uint32, xyzt: vec4, px: int32, py: int32, pz: int32, pt: int32):
    return field4(state, xyzt, px, py, pz, pt)[0]


@library_function
def octaves2(state: uint32, p, octaves: uint32, lacunarity: float32, gain: float32):
    """A sum of gradients: each `lacunarity` times finer and `gain` times weaker than the one before, as in Warp."""
    frequency, amplitude, total = float32(1.0), float32(1.0), vec2()
    for _ in range(int32(octaves)):
        f = field2(state, p * frequency, 0, 0)
        total = total + vec2(f[1], f[2]) * amplitude
        frequency, amplitude = frequency * lacunarity, amplitude * gain
    return total


@library_function
def octaves3(state: uint32, p, octaves: uint32, lacunarity: float32, gain: float32):
    frequency, amplitude, total = float32(1.0), float32(1.0), vec3()
    for _ in range(int32(octaves)):
        f = field3(state, p * frequency, 0, 0, 0)
        total = total + vec3(f[1], f[2], f[3]) * amplitude
        frequency, amplitude = frequency * lacunarity, amplitude * gain
    return total


@library_function
def octaves4(state: uint32, p, octaves: uint32, lacunarity: float32, gain: float32):
    frequency, amplitude, total = float32(1.0), float32(1.0), vec3()
    for _ in range(int32(octaves)):
        f = field4(state, p * frequency, 0, 0, 0, 0)
        total = total + vec3(f[1], f[2], f[3]) * amplitude
        frequency, amplitude = frequency * lacunarity, amplitude * gain
    return total


@library_function
def curl(f, g, h):
    """The curl of a field from the gradients of its three components."""
    return vec3(h[1] - g[2], f[2] - h[0], g[0] - f[1])


@builtin("curlnoise")
def curlnoise2(state: uint32, xy: vec2, octaves: uint32 = 1, lacunarity: float32 = 2.0, gain: float32 = 0.5):
    """A divergence-free field: the curl of noise (Bridson et al. 2007, "Curl-noise for procedural fluid flow")."""
    g = octaves2(state, xy, octaves, lacunarity, gain)
    return vec2(-g.y, g.x)


@builtin("curlnoise")
def curlnoise3(state: uint32, xyz: vec3, octaves: uint32 = 1, lacunarity: float32 = 2.0, gain: float32 = 0.5):
    f = octaves3(state, xyz, octaves, lacunarity, gain)
    second = rand_init_offset(int32(state), static(FIELD_2))
    g = octaves3(second, xyz, octaves, lacunarity, gain)
    third = rand_init_offset(int32(second), static(FIELD_3))
    return curl(f, g, octaves3(third, xyz, octaves, lacunarity, gain))


@builtin("curlnoise")
def curlnoise4(state: uint32, xyzt: vec4, octaves: uint32 = 1, lacunarity: float32 = 2.0, gain: float32 = 0.5):
    f = octaves4(state, xyzt, octaves, lacunarity, gain)
    second = rand_init_offset(int32(state), static(FIELD_2))
    g = octaves4(second, xyzt, octaves, lacunarity, gain)
    third = rand_init_offset(int32(second), static(FIELD_3))
    return curl(f, g, octaves4(third, xyzt, octaves, lacunarity, gain))
