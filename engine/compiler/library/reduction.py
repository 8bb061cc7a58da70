"""Reduction of angles to the nearest multiple of pi/2, exact enough for 2 ulp at every finite argument.

Up to a limit: Cody and Waite with fma, pi/2 in three parts. Beyond: Payne and Hanek, "Radian reduction for
trigonometric functions" (1983): only the bits of 2/pi that matter for the fraction are multiplied, in integers.
Each function returns (hi, lo, quadrant): x = (quadrant + 4 k) pi/2 + hi + lo, |hi| a little above pi/4 at most.
"""

from engine.compiler.library.primitives import absolute, bitcast, clz, fma, rint, select
from engine.compiler.library.registry import library_function
from engine.compiler.types import float32, float64, int32, int64, uint32, uint64
from engine.compiler.values import vector

# 2/pi in words of 64 bits after a word of zeros
TWO_OVER_PI = vector(length=19, dtype=uint64)(
    0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41,
    0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08,
)  # fmt: skip

LIMIT_F32 = 32768.0  # x * 2/pi then rounds to the right whole number within 0.002
LIMIT_F64 = 1048576.0
PI_0, PI_1, PI_2 = 3.141592502593994, 1.5099578831723193e-07, 1.078060505991553e-14
HALF_PI = 1.5707963267948966
HALF_PI_LOW = 6.123233995736766e-17


@library_function
def rounding_error(a, hi, n, c):
    """a + n c - hi for hi = fma(n, c, a), or 0 where a and n c nearly cancel: there hi is exact enough by itself."""
    difference = a - hi
    error = fma(n, c, difference)
    return select(absolute(difference) <= 0.5 * absolute(a), error, difference - difference)


@library_function
def reduce_f32(x: float32):
    n = rint(x * 0.6366197466850281)
    a = fma(n, -1.5707963705062866, x)  # exact: a whole multiple of 2**-24 below 1
    hi = fma(n, 4.371138828673793e-08, a)
    lo = rounding_error(a, hi, n, 4.371138828673793e-08)
    lo = fma(n, 1.7151245100058819e-15, lo)
    quadrant = int32(n)
    if absolute(x) > LIMIT_F32:
        hi, lo, quadrant = reduce_huge_f32(x)
    return hi, lo, quadrant


@library_function
def turns_f32(size: float32):
    """size * 2/pi modulo 4 in units of 2**-62, for size > LIMIT_F32: 2**64 are a full turn."""
    bits = bitcast(size, uint32)
    mantissa = uint64((bits & 0x7FFFFF) | 0x800000) << 8  # 32 bits, the highest set
    start = int32(bits >> 23) - 128  # first bit of TWO_OVER_PI whose product is not a multiple of a full turn
    first = start < 64
    a = select(first, uint64(0), uint64(0xA2F9836E4E441529))
    b = select(first, uint64(0xA2F9836E4E441529), uint64(0xFC2757D1F534DDC0))
    c = select(first, uint64(0xFC2757D1F534DDC0), uint64(0xDB6295993C439041))
    shift = uint64(start & 63)
    word0 = (a << shift) | ((b >> 1) >> (63 - shift))
    word1 = (b << shift) | ((c >> 1) >> (63 - shift))
    return ((mantissa * word0) << 32) + mantissa * (word1 >> 32) + ((mantissa * (word1 & 0xFFFFFFFF)) >> 32)


@library_function
def reduce_huge_f32(x: float32):
    turns = turns_f32(absolute(x))
    quadrant = int32((turns + 0x2000000000000000) >> 62)
    angle = float64(bitcast(turns << 2, int64)) * 8.515303950216386e-20  # pi/2 * 2**-64
    hi = float32(angle)
    lo = float32(angle - float64(hi))
    if x < 0.0:
        hi, lo, quadrant = -hi, -lo, -quadrant
    if absolute(x) > 3.4028234663852886e38:
        hi = x - x  # infinity has no angle
    return hi, lo, quadrant


# Sine and cosine in float32 need no more than the nearest multiple of half a turn: (r, sign) with sin(size) = ± sin(r),
# minus where the highest bit of `sign` is set. Added to MAGIC, a number is rounded to a whole one in the lowest bits.

MAGIC = 12582912.0
QUARTER = 0x4000000000000000  # of a turn, in units of `turns_f32`


@library_function
def sign_bit(x: float32):
    return bitcast(x, uint32) & 0x80000000


@library_function
def without_half_turns(size: float32, n: float32):
    """size - n pi for n up to 2**14 with at most one binary digit: pi in three parts, the first product is exact."""
    a = fma(n, -PI_0, size)
    return fma(n, -PI_2, fma(n, -PI_1, a))


@library_function
def half_turn_f32(size: float32):
    """For 0 <= size <= LIMIT_F32."""
    t = fma(size, 0.31830987334251404, MAGIC)
    return without_half_turns(size, t - MAGIC), bitcast(t, uint32) << 31


@library_function
def quarter_and_half_turn_f32(size: float32):
    """The same of size + pi/2, for the cosine."""
    t = fma(size, 0.31830987334251404, 0.5) + MAGIC
    return without_half_turns(size, (t - MAGIC) - 0.5), bitcast(t, uint32) << 31


@library_function
def half_turn_of(turns: uint64, size: float32):
    """The same of an angle in units of `turns_f32`; NaN where `size` is infinite."""
    sign = uint32((turns + QUARTER) >> 63) << 31
    r = float32(float64(bitcast(turns << 1, int64)) * 1.7030607900432772e-19)  # pi * 2**-64
    if size > 3.4028234663852886e38:
        r = size - size
    return r, sign


@library_function
def reduce_f64(x: float64):
    n = rint(x * 0.6366197723675814)
    a = fma(n, -HALF_PI, x)  # exact
    hi = fma(n, -HALF_PI_LOW, a)
    lo = rounding_error(a, hi, n, -HALF_PI_LOW)
    lo = fma(n, 1.4973849048591698e-33, lo)
    quadrant = int32(n)
    if absolute(x) > LIMIT_F64:
        hi, lo, quadrant = reduce_huge_f64(x)
    return hi, lo, quadrant


@library_function
def multiply_high(a: uint64, b: uint64):
    """The upper 64 bits of a 64 x 64 bit product."""
    a0, a1 = a & 0xFFFFFFFF, a >> 32
    b0, b1 = b & 0xFFFFFFFF, b >> 32
    middle = a1 * b0 + ((a0 * b0) >> 32)
    carry = (middle & 0xFFFFFFFF) + a0 * b1
    return a1 * b1 + (middle >> 32) + (carry >> 32)


@library_function
def fraction_of_turns(mantissa: uint64, start: int32):
    """mantissa * (bits of TWO_OVER_PI from `start` on) modulo 4: two words in units of 2**-62 and 2**-126."""
    index = start >> 6
    shift = uint64(start & 63)
    a, b, c, d = TWO_OVER_PI[index], TWO_OVER_PI[index + 1], TWO_OVER_PI[index + 2], TWO_OVER_PI[index + 3]
    word0 = (a << shift) | ((b >> 1) >> (63 - shift))
    word1 = (b << shift) | ((c >> 1) >> (63 - shift))
    word2 = (c << shift) | ((d >> 1) >> (63 - shift))
    low = mantissa * word1
    below = multiply_high(mantissa, word2)
    sum_low = low + below
    carry = select(sum_low < low, uint64(1), uint64(0))
    return mantissa * word0 + multiply_high(mantissa, word1) + carry, sum_low


@library_function
def reduce_huge_f64(x: float64):
    bits = bitcast(absolute(x), uint64)
    mantissa = ((bits & 0xFFFFFFFFFFFFF) | 0x10000000000000) << 11  # 64 bits, the highest set
    high, low = fraction_of_turns(mantissa, int32(bits >> 52) - 1024)
    quadrant = int32((high + 0x2000000000000000) >> 62)
    # the signed fraction of a quarter turn, as magnitude in units of 2**-128 and sign
    high, low = (high << 2) | (low >> 62), low << 2
    negative = high >= 0x8000000000000000
    if negative:
        low = ~low + 1
        high = ~high + select(low == 0, uint64(1), uint64(0))
    zeros = clz(high)  # fractions of doubles are never closer to 0 than 2**-62
    shift = zeros & 63
    top = (high << shift) | ((low >> 1) >> (63 - shift))
    rest = low << shift
    a = float64(top >> 11) * 1.1102230246251565e-16  # 2**-53
    b = float64(((top & 0x7FF) << 53) | (rest >> 11)) * 6.018531076210112e-36  # 2**-117
    scale = bitcast((1023 - shift) << 52, float64)
    angle = fma(a, HALF_PI, 0.0)
    error = fma(a, HALF_PI, -angle) + fma(a, HALF_PI_LOW, b * HALF_PI)
    hi = (angle + error) * scale
    lo = (error - ((angle + error) - angle)) * scale
    if negative != (x < 0.0):
        hi, lo = -hi, -lo
    if x < 0.0:
        quadrant = -quadrant
    if absolute(x) > 1.7976931348623157e308:
        hi = x - x
    return hi, lo, quadrant
