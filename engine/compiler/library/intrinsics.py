"""Names that only the compiler can give a meaning, beside those that the library computes."""

from __future__ import annotations

from typing import Any

from engine.compiler import ops, types


class Intrinsic:
    """A name that only the compiler can give a meaning; calling it in Python scope is an error."""

    def __init__(self, intrinsic: str, doc: str):
        self.intrinsic = self.__name__ = intrinsic
        self.__doc__ = doc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{self.intrinsic}() has a meaning in kernels only")

    def __repr__(self) -> str:
        return f"<intrinsic {self.intrinsic}>"


BLOCKS: dict[str, Intrinsic] = {
    row.intrinsic: row
    for row in (
        Intrinsic("thread_id", "Index of this thread in its block, int32."),
        Intrinsic("block_id", "Index of this thread's block, int32."),
        Intrinsic("block_dim", "Threads of a block, int32: what the launch says."),
        Intrinsic("lane_id", "Index of this thread in its warp, int32: 0 … 31."),
        Intrinsic("warp_id", "Index of this thread's warp in its block, int32."),
        Intrinsic("warp_lanes", "Threads of this warp, int32: 32, or what the launch has left for its last one."),
        Intrinsic("sync_threads", "Waits for all threads of the block; what they wrote before can be read after it."),
        Intrinsic("sync_warp", "sync_warp(mask): waits for the threads of the warp, or those with a bit in the mask."),
        Intrinsic(
            "warp_shuffle_down",
            "warp_shuffle_down(value, delta): the value of the thread so many lanes further on; the own where there is "
            "none.",
        ),
        Intrinsic("warp_shuffle_up", "warp_shuffle_up(value, delta): the value of the thread so many lanes before."),
        Intrinsic("warp_shuffle_xor", "warp_shuffle_xor(value, mask): the value of the thread at lane_id() ^ mask."),
        Intrinsic("warp_shuffle_idx", "warp_shuffle_idx(value, lane): the value of the thread at a lane."),
        Intrinsic("warp_ballot", "warp_ballot(predicate): a bit for each lane whose predicate holds, uint32."),
        Intrinsic("warp_any", "warp_any(predicate): whether it holds for some thread of the warp."),
        Intrinsic("warp_all", "warp_all(predicate): whether it holds for all threads of the warp."),
    )
}


class shared:
    """`shared.array(shape=256, dtype=float, layout="row_major")`: one array for all threads of a block.

    It holds anything until the threads have written it; `sync_threads()` makes what one wrote visible to the others.
    """

    array = Intrinsic("shared_array", __doc__)


class TileName(Intrinsic):
    """`tile(x)`, and the annotation `tile[dtype, extent, …]` of a parameter that takes tiles of this type and shape."""

    def __getitem__(self, given: Any) -> types.Generic:
        if given == ():
            raise TypeError("tile[…] requires at least a dtype")
        dtype, *shape = given if isinstance(given, tuple) else (given,)
        if len(shape) == 1 and isinstance(shape[0], tuple):
            shape = list(shape[0])
        extents = tuple(map(types.literal, shape))
        for n in extents:
            if not isinstance(n, int) or isinstance(n, bool) or n < 1:
                raise TypeError(f"tile[…]: an extent is a positive integer, got {n!r}")
        return types.Generic("tile", types.of_annotation(dtype), extents)


class StackName(Intrinsic):
    """`tile_stack(capacity=8, dtype=int)`: a stack in a kernel, in Python the annotation of a parameter."""

    def __call__(self, capacity: int, dtype: Any) -> types.TileStack:
        return types.tile_stack_of(types.of_annotation(dtype), capacity)


ATOMICS = {
    f"atomic_{name}": Intrinsic(f"atomic_{name}", f"Atomic {name} on an array element; gives the old value.")
    for name in ops.ATOMICS
}
HINTS = {
    "prefetch": Intrinsic(
        "prefetch",
        "prefetch(array, i, …): a processor fetches this element, which is wanted soon, into its cache; it may lie "
        "outside. Kernels that call it run in the thread shape.",
    )
}
TILES: dict[str, Intrinsic] = {
    row.intrinsic: row
    for row in (
        TileName(
            "tile",
            "tile(x, preserve_type=False): the values of the threads of a block as a tile. `tile[float, 8, 4]` is "
            "an annotation.",
        ),
        Intrinsic(
            "untile",
            "untile(t): this thread's element of a tile whose last dimension runs over the threads of the block.",
        ),
        Intrinsic("tile_zeros", "tile_zeros(shape, dtype=float): a tile of zeros."),
        Intrinsic("tile_ones", "tile_ones(shape, dtype=float): a tile of ones."),
        Intrinsic("tile_empty", "tile_empty(shape, dtype=float): a tile to be filled; it is zero until then."),
        Intrinsic("tile_full", "tile_full(shape, value, dtype=None): a tile of one value."),
        Intrinsic("tile_arange", "tile_arange(start, stop, step, dtype=None): start, start + step, … below stop."),
        Intrinsic(
            "tile_from_thread",
            "tile_from_thread(shape, value, thread_idx): a tile filled with the value of one thread of the block.",
        ),
        Intrinsic(
            "tile_load",
            "tile_load(array, shape, offset=0): a part of an array; what lies outside of it is zero.",
        ),
        Intrinsic(
            "tile_store",
            "tile_store(array, t, offset=0): writes a tile to a part of an array; what lies outside of it is left out.",
        ),
        Intrinsic(
            "tile_atomic_add",
            "tile_atomic_add(array, t, offset=0): adds a tile to a part of an array atomically; gives the old "
            "elements.",
        ),
        Intrinsic(
            "tile_map",
            "tile_map(f, a, b, …): f of the elements of tiles; arguments that are no tiles are the same for all.",
        ),
        Intrinsic("tile_astype", "tile_astype(t, dtype): the elements converted."),
        Intrinsic(
            "tile_view",
            "tile_view(t, offset, shape=None): a part of a tile, sharing its memory; without a shape and with an "
            "offset for each dimension: that element.",
        ),
        Intrinsic("tile_transpose", "tile_transpose(a): the transposed tile, sharing its memory."),
        Intrinsic(
            "tile_broadcast",
            "tile_broadcast(a, shape): the tile repeated along dimensions where it has one element, or which it lacks.",
        ),
        Intrinsic("tile_reshape", "tile_reshape(a, shape): the elements in another shape; one extent may be -1."),
        Intrinsic("tile_squeeze", "tile_squeeze(a, axis=None): the tile without its dimensions of extent 1."),
        Intrinsic("tile_assign", "tile_assign(dst, src, offset=0): copies a tile into a part of another."),
        Intrinsic("tile_extract", "tile_extract(t, i, j, …): an element of a tile."),
        Intrinsic(
            "tile_matmul",
            "tile_matmul(a, b): the matrix product. tile_matmul(a, b, out, alpha=1, beta=1): out = alpha a b + "
            "beta out.",
        ),
        Intrinsic(
            "tile_cholesky",
            "tile_cholesky(A, fill_mode): L with A = L Lᵀ of the lower triangle of A, or U with A = Uᵀ U of the "
            "upper one.",
        ),
        Intrinsic("tile_cholesky_inplace", "tile_cholesky_inplace(A, fill_mode): the Cholesky factor in place of A."),
        Intrinsic(
            "tile_cholesky_solve",
            "tile_cholesky_solve(L, y, fill_mode): x with A x = y, given the Cholesky factor of A.",
        ),
        Intrinsic(
            "tile_cholesky_solve_inplace",
            "tile_cholesky_solve_inplace(L, y, fill_mode): the solution in place of y.",
        ),
        Intrinsic("tile_lower_solve", "tile_lower_solve(L, y): x with L x = y, L lower triangular."),
        Intrinsic("tile_lower_solve_inplace", "tile_lower_solve_inplace(L, y): the solution in place of y."),
        Intrinsic("tile_upper_solve", "tile_upper_solve(U, z): x with U x = z, U upper triangular."),
        Intrinsic("tile_upper_solve_inplace", "tile_upper_solve_inplace(U, z): the solution in place of z."),
        Intrinsic("tile_diag_add", "tile_diag_add(a, d): the matrix a plus the diagonal matrix of d."),
        Intrinsic(
            "tile_fft",
            "tile_fft(t): the Fourier transforms along the last dimension, in place; elements are (real, imaginary).",
        ),
        Intrinsic("tile_ifft", "tile_ifft(t): the inverse of tile_fft times the length, in place."),
        Intrinsic(
            "tile_sort",
            "tile_sort(keys, values=None): sorts in place; equal keys keep their order, NaN comes last.",
        ),
        Intrinsic(
            "tile_load_indexed",
            "tile_load_indexed(a, indices, shape, offset, axis=0): tile_load with the indices of an axis from a tile.",
        ),
        Intrinsic(
            "tile_store_indexed",
            "tile_store_indexed(a, indices, t, offset, axis=0): tile_store with the indices of an axis from a tile.",
        ),
        Intrinsic(
            "tile_atomic_add_indexed",
            "tile_atomic_add_indexed(a, indices, t, offset, axis=0): as tile_atomic_add, indices from a tile.",
        ),
        Intrinsic(
            "tile_scatter_add",
            "tile_scatter_add(t, i, j, …, value, has_value): adds to one element if has_value.",
        ),
        Intrinsic(
            "tile_scatter_masked",
            "tile_scatter_masked(t, i, j, …, value, has_value): writes one element if has_value.",
        ),
        Intrinsic("tile_add_inplace", "tile_add_inplace(t, i, j, …, value): t[i, j, …] += value."),
        Intrinsic("tile_sub_inplace", "tile_sub_inplace(t, i, j, …, value): t[i, j, …] -= value."),
        Intrinsic("tile_bit_and_inplace", "tile_bit_and_inplace(t, i, j, …, value): t[i, j, …] &= value."),
        Intrinsic("tile_bit_or_inplace", "tile_bit_or_inplace(t, i, j, …, value): t[i, j, …] |= value."),
        Intrinsic("tile_bit_xor_inplace", "tile_bit_xor_inplace(t, i, j, …, value): t[i, j, …] ^= value."),
        Intrinsic(
            "tile_stack_push",
            "tile_stack_push(s, value, has_value): puts a value on the stack; its position, or -1.",
        ),
        Intrinsic(
            "tile_stack_pop",
            "tile_stack_pop(s): the value on top and its position; zero and -1 of an empty stack.",
        ),
        Intrinsic("tile_stack_count", "tile_stack_count(s): how many values the stack holds."),
        Intrinsic("tile_stack_clear", "tile_stack_clear(s): empties the stack."),
        Intrinsic(
            "tile_randi",
            "tile_randi(shape, rng, min, max): random int32; element i has the number that follows from the "
            "state rng + i.",
        ),
        Intrinsic("tile_randf", "tile_randf(shape, rng, min, max): random float32 from 0 to 1, or from min to max."),
        StackName("tile_stack", "tile_stack(capacity, dtype): a stack that the block shares; also an annotation."),
    )
}

# what the library needs beside them; no user can write these names
OWN = {
    row.intrinsic: row
    for row in (
        Intrinsic(
            "tile_lines",
            "tile_lines(a, axis): a copy of shape (outer, extent of the axis, inner); None: all is one line.",
        ),
        Intrinsic(
            "tile_first_of_lines",
            "tile_first_of_lines(lines, a, axis): index 0 of each line, in the shape without the axis.",
        ),
        Intrinsic(
            "tile_element_atomic_add",
            "tile_element_atomic_add(a, i, value): atomic_add, of structs field by field.",
        ),
        Intrinsic(
            "each",
            "for i in each(stop), each(start, stop): a range whose rounds do not depend on each other, so that the "
            "threads of a block share them. Of an `each` within another, round j reads nothing but what round j of the "
            "others within the same one wrote: a thread does all that belongs to its pair of indices.",
        ),
        Intrinsic("tile_element_dot", "tile_element_dot(a, b): the sum of the products of two elements' components."),
        Intrinsic(
            "tile_element_sum",
            "tile_element_sum(a, b): the sum of two elements; structs are added field by field.",
        ),
    )
}

tile_element_atomic_add, tile_element_dot = OWN["tile_element_atomic_add"], OWN["tile_element_dot"]
each = OWN["each"]
tile_element_sum, tile_first_of_lines = OWN["tile_element_sum"], OWN["tile_first_of_lines"]
tile_lines = OWN["tile_lines"]
tile_empty, tile_map, tile_reshape = TILES["tile_empty"], TILES["tile_map"], TILES["tile_reshape"]

# for the library itself
lane_id, warp_lanes = BLOCKS["lane_id"], BLOCKS["warp_lanes"]
warp_shuffle_down, warp_shuffle_idx = BLOCKS["warp_shuffle_down"], BLOCKS["warp_shuffle_idx"]
