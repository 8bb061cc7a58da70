"""From HIR to an address: stages, the cache, user passes, loops' edge cases, the native region."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from engine.compiler import pipeline
from engine.compiler import types as T
from engine.compiler.cache import KernelCache, digest
from engine.compiler.emit_thread import emit
from engine.compiler.ir import Function
from engine.compiler.pipeline import Options, compile_kernel, lower, register_ir_pass, unregister_ir_pass
from engine.compiler.printer import print_function
from engine.compiler.target_host import host_target
from engine.config import config
from engine.errors import ConfigError, InternalError
from tests.compiler.hir_builder import Builder, pack, run

F, I = T.float32, T.int32


def saxpy(name: str = "saxpy") -> Function:
    b = Builder(name, ("x", T.Array(F)), ("y", T.Array(F)), ("a", F))
    i = b.tid()
    x, y, a = b.params
    b.store(y, i, b.ew("add", b.ew("mul", a, b.load(x, i)), b.load(y, i)))
    return b.fn


def test_saxpy_at_every_level() -> None:
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    compiled = run(saxpy(), 1000, x, y, 2.0)
    assert np.array_equal(y, 2 * x + 1)
    assert list(compiled.stages) == ["hir", "mir", "block", "llvm", "asm", "ptx"]
    assert compiled.stages["block"] == compiled.stages["mir"]  # a kernel with nothing to share
    assert "mul" in compiled.stages["hir"] and "fma" in compiled.stages["mir"]
    assert "@llvm.fma.f32" in compiled.stages["llvm"] and "saxpy_range:" in compiled.stages["asm"]


def test_lowering_twice_gives_the_same_text() -> None:
    texts = {emit(lower(saxpy(), Options()), "k") for _ in range(3)}
    assert len(texts) == 1


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KernelCache:
    cache = KernelCache(tmp_path)
    monkeypatch.setattr(pipeline, "KernelCache", lambda: cache)
    monkeypatch.setattr(pipeline, "_compiled", {})
    return cache


def files(cache: KernelCache) -> list[Path]:
    return [p for p in cache.folder.rglob("*") if p.is_file()]


def test_second_compile_comes_from_the_cache(cache: KernelCache, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compile_kernel(saxpy())
    (file,) = files(cache)
    assert file.name == first.key and len(first.key) == 64
    monkeypatch.setattr(pipeline, "_compiled", {})
    monkeypatch.setattr(pipeline, "lower", None)  # a hit must not run a pass
    x, y = np.arange(9, dtype=np.float32), np.zeros(9, np.float32)
    second = run(saxpy(), 9, x, y, 3.0)
    assert second.from_cache and not first.from_cache
    assert (second.abi, second.key) == (first.abi, first.key)
    assert np.array_equal(y, 3 * x)


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "garbage", "another format", "another kernel"])
def test_damaged_entries_are_made_again(cache: KernelCache, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    compile_kernel(saxpy())
    (file,) = files(cache)
    good = file.read_bytes()
    bad = bytearray(good)
    bad[len(bad) // 2] ^= 1
    other = compile_kernel(saxpy(), options=Options(fma=False))
    file.write_bytes({
        "cut": good[:-5], "flip": bytes(bad), "empty": b"", "garbage": random.Random(1).randbytes(len(good)),
        "another format": b"WEFTOBJ0" + good[8:], "another kernel": cache.path(other.key).read_bytes(),
    }[damage])  # fmt: skip
    monkeypatch.setattr(pipeline, "_compiled", {})
    assert not compile_kernel(saxpy()).from_cache
    assert file.read_bytes() == good


def test_folder_that_cannot_be_written_warns_once(tmp_path: Path) -> None:
    (tmp_path / "kernels").write_text("a file where the folder should be")
    cache = KernelCache(tmp_path)
    with pytest.warns(RuntimeWarning, match="ENGINE_CACHE_DIR") as caught:
        cache.put("ab" * 32, {}, b"code")
        cache.put("cd" * 32, {}, b"code")
    assert len(caught) == 1
    assert cache.get("ab" * 32) is None


def test_a_full_disk_costs_a_warning(tmp_path: Path) -> None:
    """Files of more than 100 bytes cannot be written: every kernel is compiled, nothing half-written is left."""
    resource = pytest.importorskip("resource")
    code = (
        "import numpy as np\n"
        "from tests.compiler.test_pipeline import run, saxpy\n"
        "x, y = np.arange(9, dtype=np.float32), np.zeros(9, np.float32)\n"
        "run(saxpy(), 9, x, y, 3.0)\n"
        "assert np.array_equal(y, 3 * x)\n"
    )
    root = str(Path(__file__).parents[2])
    env = {**os.environ, "ENGINE_CACHE_DIR": str(tmp_path), "PYTHONPATH": root, "PYTHONDONTWRITEBYTECODE": "1"}
    result = subprocess.run([sys.executable, "-c", code], env=env, cwd=root, capture_output=True, text=True, timeout=60,
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("compiled kernels cannot be kept in") == 1
    assert not files(KernelCache(tmp_path))


def test_cache_switched_off(cache: KernelCache) -> None:
    with config.scope(kernel_cache=False):
        compile_kernel(saxpy())
    assert not cache.folder.exists()


def test_many_processes_share_a_cache(tmp_path: Path) -> None:
    code = (
        "from tests.compiler.test_pipeline import saxpy\n"
        "from engine.compiler.pipeline import compile_kernel\n"
        "for k in range(4): compile_kernel(saxpy(f'k{k}'))\n"
    )
    root = str(Path(__file__).parents[2])
    env = {**os.environ, "ENGINE_CACHE_DIR": str(tmp_path), "PYTHONPATH": root}
    started = [subprocess.Popen([sys.executable, "-W", "error", "-c", code], env=env, cwd=root) for _ in range(3)]
    assert [p.wait(100) for p in started] == [0, 0, 0]
    cache = KernelCache(tmp_path)
    found = files(cache)
    assert len(found) == 4  # and nothing temporary
    assert all(cache.get(p.name) is not None for p in found)
    assert cache.clear() == 4 and not files(cache)


def test_key_depends_on_all_that_decides_the_code() -> None:
    def key(fn: Function, **options: object) -> str:
        return compile_kernel(fn, options=Options(**options)).key

    base = key(saxpy())
    assert base == key(saxpy())
    assert base != key(saxpy(), fma=False) != key(saxpy(), opt_level=1)
    callees = []
    for value in (1.0, 2.0):
        f = Builder("f", result=F, is_kernel=False)
        f.ret(f.f32(value))
        b = Builder("calls", ("y", T.Array(F)))
        b.store(b.params[0], b.tid(), b.call(f.fn))
        callees.append(key(b.fn))
    assert callees[0] != callees[1]


def test_structs_of_one_name_but_other_fields_differ() -> None:
    texts = []
    for inner in (F, I):
        s = T.Struct("S", (("a", inner),))
        b = Builder("k", ("x", T.Array(s)), ("y", T.Array(s)))
        b.store(b.params[1], b.tid(), b.load(b.params[0], b.tid()))
        texts.append(print_function(b.fn))
    assert texts[0] != texts[1]


def test_digest_separates_its_parts() -> None:
    assert digest("ab", "c") != digest("a", "bc")


def test_user_pass(cache: KernelCache) -> None:
    """A pass that doubles a constant runs where it was put, and keeps its kernels out of the disk cache."""

    def double(fn: Function) -> Function:
        for op in fn.body.walk():
            if op.kind == "const" and op.type == F:
                op.attrs = {"value": op.attrs["value"] * 2}
        return fn

    b = Builder("constant", ("y", T.Array(F)))
    b.store(b.params[0], b.tid(), b.f32(3.0))
    register_ir_pass("double", double, after="simplify")
    try:
        y = np.zeros(2, np.float32)
        run(b.fn, 2, y)
        assert y.tolist() == [6, 6] and not files(cache)
        with pytest.raises(ConfigError, match="exists already"):
            register_ir_pass("double", double, after="simplify")
        with pytest.raises(ConfigError, match="no pass 'nowhere'"):
            register_ir_pass("other", double, after="nowhere")
    finally:
        unregister_ir_pass("double")
    assert [stage.name for stage in pipeline.passes] == ["guard", "normalize", "inline", "scalarize", "simplify"]


def test_a_pass_that_breaks_the_rules_is_named_by_the_verifier() -> None:
    def break_it(fn: Function) -> Function:
        fn.body.ops.reverse()
        return fn

    register_ir_pass("break it", break_it, after="simplify")
    try:
        with pytest.raises(InternalError, match="saxpy"):
            compile_kernel(saxpy())
    finally:
        unregister_ir_pass("break it")


def test_threads_compile_at_the_same_time() -> None:
    results: list[object] = []

    def work(k: int) -> None:
        x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
        run(saxpy(f"threaded{k % 3}"), 64, x, y, float(k))
        results.append(np.array_equal(y, x * k))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(9)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [True] * 9


# loops


@pytest.mark.parametrize(
    ("t", "step"),
    [(t, step) for t in (I, T.int64, T.uint32) for step in (1, -1, 3, -4, None) if t.kind == "i" or (step or 1) > 0],
)
def test_ranges_as_python(t: T.Scalar, step: int | None) -> None:
    """Count and sum of range(start, stop, step), at the ends of the type, too; None: a step known only when running."""
    low, high = t.range
    bounds = [(0, 5), (5, 0), (-3, 4), (0, 0), (high - 5, high), (low, low + 4), (low + 4, low), (high, high - 5)]
    bounds = [(a, c) for a, c in bounds if low <= min(a, c)]
    steps = [step] if step is not None else [1, 2, 0, high, *([-1, -3, low] if t.kind == "i" else [])]
    b = Builder(
        "ranges",
        ("start", T.Array(t)),
        ("stop", T.Array(t)),
        ("step", T.Array(t)),
        ("count", T.Array(t)),
        ("sum", T.Array(t)),
    )
    i = b.tid()
    start, stop = b.load(b.params[0], i), b.load(b.params[1], i)
    by = b.load(b.params[2], i) if step is None else b.const(t, step)
    count, total = b.var("count", b.const(t, 0)), b.var("sum", b.const(t, 0))
    with b.for_(start, stop, by) as k:
        b.set(count, b.ew("add", b.get(count), b.const(t, 1)))
        b.set(total, b.ew("add", b.get(total), k))
    b.store(b.params[3], i, b.get(count))
    b.store(b.params[4], i, b.get(total))
    rows = [(a, c, s) for a, c in bounds for s in steps]
    columns = [np.array(column, t.numpy) for column in zip(*rows)]
    counts, sums = np.zeros(len(rows), t.numpy), np.zeros(len(rows), t.numpy)
    run(b.fn, len(rows), *columns, counts, sums)
    for row, n, s in zip(rows, counts.tolist(), sums.tolist()):
        want = list(range(*row)) if row[2] else []
        assert n == len(want), row
        assert (s - sum(want)) % 2**t.bits == 0, row


def test_a_loop_that_never_ends_is_not_undefined() -> None:
    """`while True` with a break behind a condition that memory decides; LLVM may not assume that it ends."""
    b = Builder("search", ("x", T.Array(I)), ("found", T.Array(I)))
    i = b.var("i", b.i32(0))
    with b.while_(lambda: b.const(T.bool_, True)):
        with b.if_(b.ew("eq", b.load(b.params[0], b.get(i)), b.i32(7))):
            b.op("break")
        b.set(i, b.ew("add", b.get(i), b.i32(1)))
    b.store(b.params[1], b.i32(0), b.get(i))
    x, found = np.array([1, 2, 7, 3], np.int32), np.zeros(1, np.int32)
    run(b.fn, 1, x, found)
    assert found[0] == 2


# the native functions


def region_context(compiled: object, block: np.ndarray, size: int, chunk: int, count: int = 0) -> np.ndarray:
    return np.array([compiled.address, block.ctypes.data, size, chunk, 0, 0, count, 0], np.int64)


@pytest.mark.parametrize(("count", "want"), [(None, 100), (37, 37), (0, 0), (-4, 0), (1000, 100)])
def test_region_claims_every_chunk_once(count: int | None, want: int) -> None:
    b = Builder("increment", ("x", T.Array(I)))
    i = b.tid()
    b.op("atomic", I, b.params[0], i, b.i32(1), op="add")
    compiled = compile_kernel(b.fn)
    x = np.zeros(100, np.int32)
    block = pack(compiled, (100,), [x])
    counter = np.array([count or 0], np.int32)
    context = region_context(compiled, block, 100, 8, 0 if count is None else counter.ctypes.data)
    enter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(host_target().region_address)
    workers = [threading.Thread(target=enter, args=(context.ctypes.data,)) for _ in range(3)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert x.tolist() == [1] * want + [0] * (100 - want)
    tickets, mask = int(context[7]), int(context[5])
    assert mask == (1 << tickets) - 1 and (tickets > 0) == (want > 0)


def test_flush_to_zero_of_the_caller_does_not_reach_kernels() -> None:
    """The caller sets flush-to-zero, as other libraries do: subnormals still come out, and the mode is restored."""
    code = """
    declare void @llvm.x86.sse.ldmxcsr(ptr)
    declare void @llvm.x86.sse.stmxcsr(ptr)
    define void @set(ptr %p) { call void @llvm.x86.sse.ldmxcsr(ptr %p) ret void }
    define void @get(ptr %p) { call void @llvm.x86.sse.stmxcsr(ptr %p) ret void }
    """
    target = host_target()
    if not target.triple.startswith("x86_64"):
        pytest.skip("MXCSR is a register of x86")
    set_mode, get_mode = (
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(a) for a in target.link(target.emit(code), "set", "get")
    )
    mode, after = np.array([0x9FC0], np.uint32), np.zeros(1, np.uint32)
    b = Builder("halve", ("x", T.Array(F)))
    b.store(b.params[0], b.tid(), b.ew("mul", b.load(b.params[0], b.tid()), b.f32(0.5)))
    compiled = compile_kernel(b.fn)
    tiny = np.finfo(np.float32).tiny
    x, y = np.full(4, tiny, np.float32), np.full(4, tiny, np.float32)
    blocks = [pack(compiled, (4,), [v]) for v in (x, y)]
    context = region_context(compiled, blocks[1], 4, 16)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(target.call_address)
    enter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(target.region_address)
    ieee = np.array([0x1F80], np.uint32)
    set_mode(mode.ctypes.data)
    try:
        call(compiled.address, blocks[0].ctypes.data, 0, 4)
        enter(context.ctypes.data)
        get_mode(after.ctypes.data)
    finally:
        set_mode(ieee.ctypes.data)
    assert (x == tiny / 2).all() and (y == tiny / 2).all()
    assert after[0] & 0x8040 == 0x8040


def test_dense_arrays_need_no_stride(cache: KernelCache) -> None:
    """The stride of the last dimension becomes a constant: one parameter less, and code that vectorises."""
    x, y = np.arange(64, dtype=np.float32), np.ones(64, np.float32)
    general = run(saxpy(), 64, x, y, 2.0)
    dense = run(saxpy(), 64, x, y, 2.0, options=Options(dense=(0, 1)))
    assert np.array_equal(y, 4 * x + 1)
    paths = {s.path for s in general.abi.slots} - {s.path for s in dense.abi.slots}
    assert paths == {("stride", 0)}
    assert dense.key != general.key
