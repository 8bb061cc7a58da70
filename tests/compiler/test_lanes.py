"""The lanes shape computes the bits of the thread shape: random programs, all widths, tails and memory forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.compiler import types as T
from engine.compiler.ir import Function, Op
from engine.compiler.pipeline import Options
from engine.compiler.printer import print_function
from engine.config import config
from tests.compiler.hir_builder import Builder, run
from tests.compiler.test_normalize_inline import Writer

WIDTHS = (4, 8, 16)
INTS = T.Array(T.int32)
VEC = T.Array(T.Vector(T.int32, 3))
ROW = T.Struct("Row", (("a", T.Vector(T.int32, 3)), ("b", T.int32), ("c", T.float32), ("d", T.int8)))
ROWS = T.Array(ROW, 1, "rows")
ROW_NUMPY = np.dtype({"names": ["a", "b", "c", "d"], "formats": [("i4", 3), "i4", "f4", "i1"],
                      "offsets": [0, 12, 16, 20], "itemsize": 32})  # fmt: skip
THREADS = 37


class LaneWriter(Writer):
    """Writes programs without races: a thread writes its own elements, and reads others' only from `table`."""

    def small(self, mask: int) -> Op:
        return self.b.ew("and", self.b.get(self.variable()), self.b.i32(mask))

    def value(self) -> Op:
        b = self.b
        table, own, vectors, rows, buffer = self.table, self.own, self.vectors, self.rows, self.buffer
        choice = self.number(0, 11)
        if choice == 0:
            return b.load(table, self.small(15))
        if choice == 1:
            return b.op("local_load", T.int32, buffer, self.small(3))
        if choice == 2:
            return b.load(own, b.ew("add", b.ew("mul", self.i, b.i32(4)), b.i32(self.number(0, 3))))
        if choice == 3:
            return b.op("extract", T.int32, b.load(vectors, self.i), index=self.number(0, 2))
        if choice == 4:
            a = b.op("extract", T.Vector(T.int32, 3), b.load(rows, self.small(7)), index=0)
            return b.op("extract", T.int32, a, index=self.number(0, 2))
        if choice == 5:
            f = b.op("extract", T.float32, b.load(rows, self.small(7)), index=2)
            g = b.cast(T.float32, b.get(self.variable()))
            return b.cast(T.int32, b.ew(("add", "div", "min", "max", "fma")[0], f, b.ew("sqrt", b.ew("abs", g))))
        if choice == 6:
            return (self.i, b.params[5], b.load(table, b.i32(self.number(0, 9))))[self.number(0, 2)]
        return super().value()

    def statement(self, kind: int) -> None:
        b = self.b
        choice = self.number(0, 9) if kind else 9
        if choice == 0 and self.loops < 2:
            self.loops += 1
            step = b.i32((1, 1, 2, -1, -2)[self.number(0, 4)]) if self.number(0, 3) else self.small(3)
            start = b.i32(0) if self.number(0, 2) == 0 else self.small(7)
            with b.for_(start, self.small(7), step) as i:
                b.set(self.variable(), b.ew("add", b.load(self.table, i), b.get(self.variable())))
                self.statements(self.number(1, 3))
            self.loops -= 1
        elif choice == 1:
            at = b.ew("add", b.ew("mul", self.i, b.i32(4)), b.i32(self.number(0, 3)))
            b.store(self.own, at, self.value())
        elif choice == 2:
            b.op("local_store", T.void, self.buffer, self.small(3), self.value())
        elif choice == 3:
            parts = [self.value() for _ in range(3)]
            b.store(self.vectors, self.i, b.op("make", T.Vector(T.int32, 3), *parts))
        elif choice == 4:
            which = self.number(0, 2)  # each kind has its own element: together they would depend on the order
            b.op("atomic", T.int32, self.count, b.i32(which), self.value(), op=("add", "xor", "max")[which])
        elif choice == 5:
            b.store(self.own, b.ew("add", b.ew("mul", self.i, b.i32(4)), self.small(3)), self.value())
        else:
            super().statement(kind)


@st.composite
def programs(draw) -> Function:
    callees: list[Function] = []
    f = Builder("f0", ("p", T.int32), ("q", T.int32), result=T.int32, is_kernel=False)
    Writer(draw, f, []).body([f.var(p.attrs["name"], p) for p in f.params], result=True)
    f.ret(f.i32(1))
    callees.append(f.fn)
    b = Builder("random", ("table", INTS), ("own", INTS), ("vectors", VEC), ("rows", ROWS), ("count", INTS),
                ("n", T.int32), ("out", INTS))  # fmt: skip
    w = LaneWriter(draw, b, callees)
    w.table, w.own, w.vectors, w.rows, w.count = b.params[:5]
    w.i = b.tid()
    w.buffer = b.op("local", T.LocalArray(T.int32, (4,)))
    variables = [b.var("i", w.i), b.var("x", b.load(b.params[6], w.i)), b.var("y", b.i32(1)), b.var("n", b.params[5])]
    w.budget = 30
    w.body(variables, result=False)
    for v in variables:
        b.set(variables[1], b.ew("add", b.ew("mul", b.get(variables[1]), b.i32(31)), b.get(v)))
    b.store(b.params[6], w.i, b.get(variables[1]))
    return b.fn


def program_arguments(threads: int) -> list:
    """Arguments for a random program of so many threads, always the same ones."""
    rng = np.random.default_rng(1)
    rows = np.zeros(8, ROW_NUMPY)
    rows["a"] = rng.integers(-9, 9, (8, 3))
    rows["b"], rows["c"], rows["d"] = range(8), rng.standard_normal(8), range(8)
    table = np.concatenate([np.arange(-3, 13), np.full(16, 7)]).astype(np.int32)
    return [table, np.arange(4 * threads, dtype=np.int32), rng.integers(0, 9, (threads, 3)).astype(np.int32),
            rows, np.zeros(3, np.int32), 5, rng.integers(-5, 9, threads).astype(np.int32)]  # fmt: skip


def outcome(fn: Function, options: Options, threads: int = THREADS, piece: int = 0) -> list[bytes]:
    args = program_arguments(threads)
    with config.scope(kernel_cache=False, verify=True):
        run(fn, threads, *args, piece=piece, options=options)
    return [a.tobytes() for a in args if isinstance(a, np.ndarray)]


@given(fn=programs(), width=st.sampled_from(WIDTHS), level=st.sampled_from((1, 2)), piece=st.integers(1, THREADS))
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_random_programs(fn: Function, width: int, level: int, piece: int) -> None:
    """Level 2 has passes of our choice for lanes, and others for the threads left over. Pieces run as workers might."""
    want = outcome(fn, Options(shape="thread", opt_level=1))
    assert outcome(fn, Options(shape="lanes", lanes=width, opt_level=level), piece=piece) == want, print_function(fn)


@pytest.mark.soak
@given(fn=programs(), piece=st.integers(1, THREADS))
@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_random_programs_in_all_forms(fn: Function, piece: int) -> None:
    want = outcome(fn, Options(shape="thread", opt_level=1))
    forms = [Options(shape="lanes", lanes=width, opt_level=level) for width in WIDTHS for level in (1, 2)]
    for options in (Options(shape="thread", opt_level=2), *forms):
        assert outcome(fn, options, piece=piece) == want, (options, print_function(fn))
