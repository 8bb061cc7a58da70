"""Random kernels with tiles: the emulated GPU gives the bits of the CPU, and no thread gets in the way of another."""

import linecache
import zlib
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine.debug import trace

ROWS, COLUMNS = 6, 12
TILES, NUMBERS = ("a", "b", "c"), ("s", "r")
TILE, NUMBER = st.sampled_from(TILES), st.sampled_from(NUMBERS)
ROW, COLUMN = st.integers(0, ROWS - 1), st.integers(0, COLUMNS - 1)


@engine.func
def squashed(x: float):
    return x / (1.0 + engine.abs(x))


def statements() -> st.SearchStrategy[list[str]]:
    """Lines of one statement; blocks are indented."""
    def line(pattern: str, **parts: st.SearchStrategy[Any]) -> st.SearchStrategy[list[str]]:
        return st.fixed_dictionaries(parts).map(lambda found: pattern.format(**found).split("\n"))

    t = {"t": TILE, "u": TILE, "v": TILE}
    place = {"i": ROW, "j": COLUMN, "k": ROW, "l": COLUMN}
    simple = st.one_of(
        line("{t} = {u} * 0.5 - {v}", **t),
        line("{t} = {u}", **t),
        line("{t} += {u}", **t),
        line("{t} = engine.tile_map(squashed, {u})", **t),
        line("{t} -= {t}[::-1] * {n}", t=TILE, n=NUMBER),
        line("{t}[1:4, ::2] = {u}[3:6, 1::2]", **t),
        line("{t}[{i}] = {u}[{k}] * {n}", **t, **place, n=NUMBER),
        line("{t} = engine.tile_reshape(engine.tile_transpose({u}), (6, 12)) + {v}", **t),
        line("{t} = engine.tile_broadcast({u}[{i}], (6, 12)) + {v}", **t, **place),
        line("{t} = engine.tile_map(squashed, {u} @ engine.tile_reshape({v}, (12, 6)) @ {u})", **t),
        line("{t}[0] = engine.tile_map(squashed, engine.tile_sum({u}, axis=0))", **t),
        line("{t} = engine.tile_map(squashed, engine.tile_scan_inclusive({u}))", **t),
        line("engine.tile_sort({t})", **t),
        line("{n} = {t}[{i}, {j}] + {n}", **t, **place, n=NUMBER),
        line("{n} = squashed(engine.tile_sum({t})[0])", **t, n=NUMBER),
        line("{t}[{i}, {j}] = {n} - {t}[{k}, {l}]", **t, **place, n=NUMBER),
        line("engine.tile_scatter_add({t}, {i}, {j}, {n}, {n} > 0.0)", **t, **place, n=NUMBER),
        line("y[{i}, {j}] = {n}", **place, n=NUMBER),
        line("{n} = y[{i}, {j}]", **place, n=NUMBER),
        line("{n} = float(engine.atomic_add(counts, {i}, 1)) * 0.25", **place, n=NUMBER),
        line("engine.tile_store(y, {t}, offset=({i} - 2, {j} - 3))", **t, **place),
        line("{t} = engine.tile_load(y, (6, 12), offset=({i} - 2, {j} - 3), storage='shared')", **t, **place),
        line("engine.tile_atomic_add(counts, engine.tile_arange(4), offset={i})", **place),
        line("{n} = float(m[{i} % 3, int({n} * 3.0)])", **place, n=NUMBER),
    )  # fmt: skip

    def blocks(inner: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
        body = st.lists(inner, min_size=1, max_size=4).map(lambda lists: ["    " + x for lines in lists for x in lines])
        return st.one_of(
            st.tuples(NUMBER, body, body).map(lambda p: [f"if {p[0]} > 0.1:", *p[1], "else:", *p[2]]),
            body.map(lambda b: ["for _ in range(2):", *b, "    s += 0.25"]),
            st.tuples(NUMBER, body).map(lambda p: ["turn = 0", f"while turn < 3 and {p[0]} < 2.0:", *p[1],
                                                   f"    {p[0]} += 0.5", "    turn += 1"]),
        )  # fmt: skip

    return st.recursive(simple, blocks, max_leaves=4)


PROGRAM = st.lists(statements(), min_size=2, max_size=5).map(lambda lists: [x for lines in lists for x in lines])

HEAD = """
def program(x: engine.array(dtype=float, ndim=2), y: engine.array(dtype=float, ndim=2),
            z: engine.array(dtype=float, ndim=3), counts: engine.array(dtype=int),
            numbers: engine.array(dtype=float)):
    a = engine.tile_load(x, shape=(6, 12))
    b = engine.tile_load(x, shape=(6, 12), offset=(2, 5))
    c = engine.tile_zeros(shape=(6, 12))
    s = x[0, 1]
    r = x[1, 0]
    m = engine.mat33(s, r, 1.0, r, s, -1.0, 0.5, r, s)
"""
TAIL = """
    engine.tile_store(z[0], a)
    engine.tile_store(z[1], b)
    engine.tile_store(z[2], c)
    numbers[0] = s
    numbers[1] = r
"""


def kernel_of(lines: list[str]) -> engine.Kernel:
    text = HEAD + "\n".join("    " + line for line in lines) + TAIL
    name = f"<tiles {zlib.crc32(text.encode())}>"
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    scope: dict[str, Any] = {"engine": engine, "squashed": squashed}
    exec(compile(text, name, "exec"), scope)
    return engine.Kernel(scope["program"])


def results(kernel: engine.Kernel, device: str, block_dim: int) -> list[np.ndarray]:
    x = np.random.default_rng(3).uniform(-1.0, 1.0, (9, 15)).astype(np.float32)
    args = [engine.array(x, device=device), engine.array(x[::-1].copy(), device=device),
            engine.zeros((3, ROWS, COLUMNS), device=device), engine.zeros(ROWS + 4, dtype=int, device=device),
            engine.zeros(2, device=device)]  # fmt: skip
    engine.launch_tiled(kernel, dim=1, inputs=args, block_dim=block_dim, device=device)
    return [a.numpy() for a in args[1:]]


@settings(max_examples=6, deadline=None)
@given(PROGRAM, st.sampled_from([32, 72, 96]))
def test_random_programs(lines: list[str], block_dim: int) -> None:
    kernel = kernel_of(lines)
    wanted = results(kernel, "cpu", block_dim)
    with trace(("mem", "race", "sync")) as report:
        found = results(kernel, "emu", block_dim)
    assert not report.findings
    for one, other in zip(found, wanted, strict=True):
        assert one.tobytes() == other.tobytes()
