"""Linear algebra, transforms and sorting of tiles: shapes and types are checked here, the work is library code."""

from __future__ import annotations

import math
from typing import Any

from engine.compiler import types
from engine.compiler.frontend import tile_elements as elements
from engine.compiler.frontend.context import Lowering, Static, Value
from engine.compiler.frontend.functions import call_function
from engine.compiler.frontend.tile_calls import Call, tile_function
from engine.compiler.frontend.tile_elements import tile_type
from engine.compiler.frontend.tiles import reshaped
from engine.compiler.ir import Op
from engine.compiler.library import tile_algebra, tile_sorting, tile_transforms
from engine.compiler.library.registry import LibraryFunction
from engine.compiler.values import value_class

PRECISIONS = ("default", "ieee", "tf32")


def run(call: Call, function: LibraryFunction, *args: Any) -> Op:
    """Calls a library function; what is no value of the kernel is known while compiling."""
    given: list[Value] = [a if isinstance(a, Op | Static) else Static(a) for a in args]
    result = call_function(call.ctx, function, given, call.node)
    return result if isinstance(result, Op) else call.ctx.const(0, types.int32, call.node)


def matrix(call: Call, parameter: str) -> Op:
    tile = call.tile(parameter)
    if len(tile_type(tile).shape) != 2:
        raise call.error(f"'{parameter}' must have 2 dimensions, it has {len(tile_type(tile).shape)}")
    return tile


def square(call: Call, parameter: str) -> Op:
    tile = matrix(call, parameter)
    t = tile_type(tile)
    if t.shape[0] != t.shape[1]:
        raise call.error(f"'{parameter}' must be square, it is {t.shape[0]} × {t.shape[1]}")
    if not (isinstance(t.dtype, types.Scalar) and t.dtype.is_float):
        raise call.error(f"'{parameter}' must hold floats, not {t.dtype!r}")
    return tile


# --- products -------------------------------------------------------------------------------------------------------


@tile_function("tile_matmul", "a b out alpha beta precision", out=None, alpha=1.0, beta=1.0, precision="default")
def lower_matmul(call: Call) -> Value:
    """`tile_matmul(a, b)`: alpha a b. `tile_matmul(a, b, out)`: out = alpha a b + beta out."""
    ctx, node = call.ctx, call.node
    a, b = matrix(call, "a"), matrix(call, "b")
    ta, tb = tile_type(a), tile_type(b)
    shape = (ta.shape[0], tb.shape[1])
    if ta.shape[1] != tb.shape[0]:
        raise call.error(f"a tile of shape {ta.shape} is not multiplied by one of shape {tb.shape}")
    if call.known("precision") not in PRECISIONS:
        raise call.error(f"precision must be one of {', '.join(PRECISIONS)}, not {call.known('precision')!r}")
    returns = call.given_or_none("out") is None
    out = elements.new_tile(ctx, types.tile_of(ta.dtype, shape), node) if returns else matrix(call, "out")
    to = tile_type(out)
    if to.shape != shape:
        raise call.error(f"'out' has the shape {to.shape}, the product {shape}")
    kinds = [types.components(t.dtype) for t in (ta, tb, to)]
    is_complex = all(isinstance(t.dtype, types.Vector) and t.dtype.length == 2 for t in (ta, tb, to))
    if not is_complex and not all(isinstance(t.dtype, types.Scalar) for t in (ta, tb, to)):
        raise call.error(f"the elements are numbers, or all vectors of two (complex numbers), not {ta.dtype!r}, "
                         f"{tb.dtype!r} and {to.dtype!r}")  # fmt: skip
    scalars = [same[0] for same in kinds if same]
    if is_complex and (any(s != scalars[0] for s in scalars) or scalars[0].bits < 32 or not scalars[0].is_float):
        raise call.error("complex elements are all vec2f or all vec2d; it does not support complex tiles of "
                         f"{ta.dtype!r}, {tb.dtype!r} and {to.dtype!r}")  # fmt: skip
    wide = accumulator(scalars)
    held = types.Vector(wide, 2) if is_complex else wide
    sums = elements.new_tile(ctx, types.tile_of(held, shape), node)
    product = tile_algebra.complex_product if is_complex else tile_algebra.real_product
    run(call, tile_algebra.multiply, a, b, sums, product, callable_type(held))
    alpha = factor(call, "alpha", wide)
    beta = ctx.const(0.0, scalars[-1], node) if returns and wide.is_float else factor(call, "beta", scalars[-1])
    run(call, tile_algebra.scale_and_add, sums, out, alpha, beta, callable_type(to.dtype))
    return out if returns else Static(None)


def callable_type(t: types.Type) -> Any:
    """What converts to, or constructs, a value of type `t` in a kernel."""
    return t if isinstance(t, types.Scalar) else value_class(t)


def accumulator(scalars: list[types.Scalar]) -> types.Scalar:
    """What products are summed in: the widest of the types, at least float32 for floats."""
    floats = [s for s in scalars if s.is_float]
    if not floats:
        return max(scalars, key=lambda s: s.bits)
    return types.float64 if any(s.bits == 64 for s in floats) else types.float32


def factor(call: Call, parameter: str, dtype: types.Scalar) -> Op:
    value = call.value(parameter, dtype)
    return value if value.type == dtype else call.ctx.emit("cast", dtype, value, node=call.node)


# --- factors and solutions ------------------------------------------------------------------------------------------


def triangle(call: Call) -> bool:
    """Whether the lower triangle is meant."""
    mode = call.known("fill_mode")
    if mode not in ("lower", "upper"):
        raise call.error(f"fill_mode must be 'lower' or 'upper', not {mode!r}")
    return bool(mode == "lower")


def transposed(ctx: Lowering, tile: Op, call: Call) -> Op:
    t = tile_type(tile)
    return elements.part(ctx, tile, 0, t.shape[::-1], t.strides[::-1], call.node)


@tile_function("tile_cholesky", "A fill_mode", fill_mode="lower")
def lower_cholesky(call: Call) -> Value:
    """L with A = L Lᵀ of the lower triangle of A, or U with A = Uᵀ U of its upper one; zero elsewhere."""
    return factorized(call, elements.copy(call.ctx, square(call, "A"), call.node))


@tile_function("tile_cholesky_inplace", "A fill_mode", fill_mode="lower")
def lower_cholesky_inplace(call: Call) -> Value:
    factorized(call, square(call, "A"))
    return Static(None)


def factorized(call: Call, a: Op) -> Op:
    run(call, tile_algebra.factorize, a if triangle(call) else transposed(call.ctx, a, call))
    return a


def right_side(call: Call, parameter: str, n: int, dtype: types.Type) -> Op:
    """The right-hand side as a matrix that shares its memory: a column of it for each one."""
    tile = call.tile(parameter)
    t = tile_type(tile)
    if len(t.shape) > 2 or t.shape[0] != n:
        raise call.error(f"'{parameter}' must have the shape ({n},) or ({n}, …), it has {t.shape}")
    if t.dtype != dtype:
        raise call.error(f"'{parameter}' must hold {dtype!r}, it holds {t.dtype!r}")
    if len(t.shape) == 2:
        return tile
    return elements.part(call.ctx, tile, 0, (n, 1), (t.strides[0], 0), call.node)


def solver(name: str, parameters: str, solve: Any, **defaults: Any) -> None:
    """Registers `name`, which gives the solution, and `name_inplace`, which writes it over the right-hand side."""
    first, second = parameters.split()

    def in_place(call: Call) -> Value:
        a = square(call, first)
        t = tile_type(a)
        solve(call, a, right_side(call, second, t.shape[0], t.dtype))
        return Static(None)

    def with_result(call: Call) -> Value:
        y = call.tile(second)
        copy = elements.copy(call.ctx, y, call.node)
        call.given[second] = copy
        in_place(call)
        return copy

    names = " ".join([parameters, *defaults])
    tile_function(name, names, **defaults)(with_result)
    tile_function(f"{name}_inplace", names, **defaults)(in_place)


def solve_with_factor(call: Call, a: Op, y: Op) -> None:
    """Both triangular systems of A x = y, given the Cholesky factor of A."""
    other = transposed(call.ctx, a, call)
    lower, upper = (a, other) if triangle(call) else (other, a)
    run(call, tile_algebra.solve_lower, lower, y)
    run(call, tile_algebra.solve_upper, upper, y)


solver("tile_lower_solve", "L y", lambda call, a, y: run(call, tile_algebra.solve_lower, a, y))
solver("tile_upper_solve", "U z", lambda call, a, y: run(call, tile_algebra.solve_upper, a, y))
solver("tile_cholesky_solve", "L y", solve_with_factor, fill_mode="lower")


@tile_function("tile_diag_add", "a d")
def lower_diag_add(call: Call) -> Value:
    """The matrix a plus the diagonal matrix of d."""
    a, d = matrix(call, "a"), call.tile("d")
    if tile_type(d).shape != (min(tile_type(a).shape),) or tile_type(d).dtype != tile_type(a).dtype:
        raise call.error(f"{tile_type(d)!r} is no diagonal of {tile_type(a)!r}")
    copy = elements.copy(call.ctx, a, call.node)
    run(call, tile_algebra.add_diagonal, copy, d)
    return copy


# --- Fourier transforms ---------------------------------------------------------------------------------------------


def prime_factors(n: int) -> tuple[int, ...]:
    found, p = [], 2
    while n > 1:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    return tuple(found)


def transform(call: Call, sign: float) -> Value:
    """The Fourier transform of each line along the last dimension, in place; elements are (real, imaginary)."""
    ctx, node = call.ctx, call.node
    tile = call.tile("inout")
    t = tile_type(tile)
    if t.dtype not in (types.Vector(types.float32, 2), types.Vector(types.float64, 2)):
        raise call.error(f"the elements must be vec2f or vec2d, not {t.dtype!r}")
    n = t.shape[-1]
    shape = (math.prod(t.shape[:-1]), n)
    lines = reshaped(ctx, tile, shape, node)
    scratch = elements.new_tile(ctx, types.tile_of(t.dtype, (n,)), node, unset=True)
    roots = elements.new_tile(ctx, types.tile_of(t.dtype, (n,)), node, unset=True)
    assert isinstance(t.dtype, types.Vector)
    run(call, tile_transforms.fill_roots, roots, t.dtype.dtype, sign)
    before = 1
    for p in prime_factors(n):
        run(call, tile_transforms.butterflies, lines, scratch, roots, p, before)
        before *= p
    if elements.memory_of(lines) is not elements.memory_of(tile):
        elements.assign(ctx, tile, reshaped(ctx, lines, t.shape, node), node)
    return Static(None)


@tile_function("tile_fft", "inout")
def lower_fft(call: Call) -> Value:
    return transform(call, -1.0)


@tile_function("tile_ifft", "inout")
def lower_ifft(call: Call) -> Value:
    """Not divided by the length: `tile_ifft` of `tile_fft` is the length times the start."""
    return transform(call, 1.0)


# --- sorting --------------------------------------------------------------------------------------------------------


@tile_function("tile_sort", "keys values", values=None)
def lower_sort(call: Call) -> Value:
    """Sorts keys, and values with them, in place; equal keys keep their order, NaN comes last."""
    ctx, node = call.ctx, call.node
    keys = call.tile("keys")
    t = tile_type(keys)
    if not isinstance(t.dtype, types.Scalar):
        raise call.error(f"keys are numbers, not {t.dtype!r}")
    values = None if call.given_or_none("values") is None else call.tile("values")
    if values is not None and tile_type(values).size != t.size:
        raise call.error(f"{t.size} keys cannot be sorted with {tile_type(values).size} values")
    n = (t.size,)
    line = reshaped(ctx, keys, n, node)
    order = run(call, tile_sorting.order_of, line)
    for tile in [keys] if values is None or values is keys else [keys, values]:
        moved = run(call, tile_sorting.picked, reshaped(ctx, tile, n, node), order)
        elements.assign(ctx, tile, reshaped(ctx, moved, tile_type(tile).shape, node), node)
    return Static(None)
