"""Blocks of threads: where a thread stands, barriers, shared arrays, values of other lanes, votes."""

import re

import numpy as np
import pytest

import engine
from engine.compiler.assemble_ptx import assemble, find_ptxas
from engine.compiler.target_ptx import ptx_target
from engine.errors import CompileError


@engine.kernel
def positions(out: engine.array(dtype=int, ndim=2)):
    i = engine.tid()
    out[i, 0] = engine.thread_id()
    out[i, 1] = engine.block_id()
    out[i, 2] = engine.block_dim()
    out[i, 3] = engine.lane_id()
    out[i, 4] = engine.warp_id()


@engine.kernel
def block_sums(x: engine.array(dtype=float), out: engine.array(dtype=float)):
    i = engine.tid()
    t = engine.thread_id()
    part = engine.shared.array(shape=256, dtype=float)
    part[t] = x[i]
    engine.sync_threads()
    half = engine.block_dim() // 2
    while half > 0:
        if t < half:
            part[t] = part[t] + part[t + half]
        engine.sync_threads()
        half = half // 2
    if t == 0:
        out[engine.block_id()] = part[0]


@engine.kernel
def shuffles(v: engine.array(dtype=engine.vec3), d: engine.array(dtype=engine.float64), b: engine.array(dtype=bool),
             h: engine.array(dtype=engine.float16), out: engine.array(dtype=engine.float64)):  # fmt: skip
    i = engine.tid()
    w = engine.warp_shuffle_up(v[i], 1)
    e = engine.warp_shuffle_idx(d[i], 7)
    c = engine.warp_shuffle_xor(b[i], 16)
    g = engine.warp_shuffle_down(h[i], 2)
    engine.sync_warp()
    engine.sync_warp(0xFF)
    if engine.warp_any(c) and engine.warp_all(w[0] > 0.0):
        out[i] = e + engine.float64(w[1]) + engine.float64(g) + engine.float64(engine.warp_ballot(c))


@engine.kernel
def histogram(x: engine.array(dtype=int), out: engine.array(dtype=int)):
    counts = engine.shared.array(shape=(4, 8), dtype=int, layout="column_major")
    t = engine.thread_id()
    if t < 32:
        counts[t % 4, t // 4] = 0
    engine.sync_threads()
    engine.atomic_add(counts, x[engine.tid()] % 4, 3, 1)
    engine.sync_threads()
    if t < 4:
        engine.atomic_add(out, t, counts[t, 3])


ALL = [positions, block_sums, shuffles, histogram]


def ptx(kernel: engine.Kernel, arch: str = "sm_75") -> str:
    return kernel.compile(tuple(t for _, t in kernel.params), ptx_target(arch)).image.decode()


@pytest.mark.parametrize("block_dim", [1, 32, 48, 256])
def test_positions_on_the_cpu(block_dim: int) -> None:
    out = engine.array(np.full((600, 5), -1, np.int32), device="cpu")
    engine.launch(positions, 600, inputs=[out], block_dim=block_dim, device="cpu")
    i = np.arange(600)
    t = i % block_dim
    want = np.stack([t, i // block_dim, np.full(600, block_dim), t % 32, t // 32], axis=1)
    assert np.array_equal(out.numpy(), want)


def test_recorded_launches_keep_their_blocks() -> None:
    out = engine.zeros((100, 5), dtype=int, device="cpu")
    command = engine.launch(positions, 100, inputs=[out], block_dim=16, device="cpu", record_cmd=True)
    command.set_dim(64)
    command.launch()
    assert out.numpy()[40].tolist() == [8, 2, 16, 8, 0] and not out.numpy()[64:].any()


@pytest.mark.parametrize("where", ["cpu", "emu"])
def test_captured_launches_keep_their_blocks(where: str) -> None:
    out = engine.zeros((64, 5), dtype=int, device=where)
    command = engine.launch(positions, 64, inputs=[out], block_dim=16, device=where, record_cmd=True)
    with engine.ScopedCapture(device=where) as capture:
        command.launch()
    engine.capture_launch(capture.graph)
    assert out.numpy()[40].tolist() == [8, 2, 16, 8, 0]


def test_positions_alone_need_no_blocks_of_the_hardware() -> None:
    """They follow from the index and the launch's block size, so that a grid-stride loop may ask for them, too."""
    text = ptx(engine.Kernel(positions.fn, options={"grid_stride": True}))
    assert "div.u32" in text and "%nctaid.x" in text


def test_shared_array_and_barriers() -> None:
    text = ptx(block_sums)
    assert ".shared .align 16 .b8 shared0[1024]" in text and text.count("bar.sync \t0;") == 2
    assert "st.shared.b32" in text and "ld.shared.b32" in text and "ld.local" not in text


def test_shuffles_move_every_type_by_words() -> None:
    text = ptx(shuffles)
    assert text.count("shfl.sync.up.b32") == 3 - 1  # of three components, two are used
    assert text.count("shfl.sync.idx.b32") == 2  # float64: two words
    assert text.count("shfl.sync.bfly.b32") == 1 and text.count("shfl.sync.down.b32") == 1
    assert len(re.findall(r"vote\.sync\.(any|all)\.pred", text)) == 2 and text.count("bar.warp.sync") == 2
    assert text.count("vote.sync.ballot.b32") == 2  # the members of the warp, and the user's


def test_steps_that_are_not_known_are_added_to_the_lane() -> None:
    """`shfl.down` looks at five bits of its step only: -1 would mean 31."""

    @engine.kernel
    def shifted(x: engine.array(dtype=float), by: int):
        i = engine.tid()
        x[i] = engine.warp_shuffle_down(x[i], by) + engine.warp_shuffle_up(x[i], -1)

    text = ptx(shifted)
    assert text.count("shfl.sync.idx.b32") == 2 and "shfl.sync.down" not in text and "shfl.sync.up" not in text


def test_shared_atomics_and_layout() -> None:
    text = ptx(histogram)
    assert "atom.shared.add.u32" in text and "ld.shared.b32" in text
    address = re.search(r"atom\.shared\.add\.u32 \t%r\d+, \[%rd\d+\+?(\d*)\]", text)
    assert address and address[1] == "48"  # column 3 begins after 3 columns of 4 numbers


def test_loads_are_repeated_after_a_barrier() -> None:
    @engine.kernel
    def exchange(x: engine.array(dtype=float), y: engine.array(dtype=float)):
        i = engine.tid()
        first = x[0]
        engine.sync_threads()
        y[i] = first + x[0]

    assert ptx(exchange).count("ld.global.b32") == 2


@pytest.mark.parametrize("operation", ["add", "min", "max", "and", "or", "xor"])
def test_reductions_are_trees_of_five_steps(operation: str) -> None:
    dtype = int if operation in ("and", "or", "xor") else float
    reduce = getattr(engine, f"warp_reduce_{operation}")

    @engine.kernel
    def reduced(x: engine.array(dtype=dtype), y: engine.array(dtype=dtype)):
        y[engine.tid()] = reduce(x[engine.tid()])

    text = ptx(reduced)
    assert [int(d) for d in re.findall(r"shfl\.sync\.down\.b32 \t%r\d+, %r\d+, (\d+), 31", text)] == [16, 8, 4, 2, 1]
    assert text.count("shfl.sync.idx.b32") == 1


def test_gradients_are_refused() -> None:
    x = engine.ones(8, dtype=float, device="cpu", requires_grad=True)
    out = engine.zeros(8, dtype=float, device="cpu", requires_grad=True)

    @engine.kernel
    def weighted(x: engine.array(dtype=float), out: engine.array(dtype=float)):
        i = engine.tid()
        out[i] = x[i] * float(engine.thread_id())

    with pytest.raises(CompileError, match=r"thread_id\(\) is not differentiated"), engine.Tape() as tape:
        engine.launch(weighted, 8, inputs=[x, out], device="cpu")
        tape.backward(grads={out: engine.ones(8, dtype=float, device="cpu")})


def refused(body: str, tmp_path) -> str:
    path = tmp_path / "kernel.py"
    path.write_text(f"import engine\n@engine.kernel\ndef wrong(x: engine.array(dtype=float)):\n    {body}\n")
    scope: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    with pytest.raises(CompileError) as caught:
        ptx(scope["wrong"])
    assert caught.value.lineno == 4
    return str(caught.value.msg)


@pytest.mark.parametrize(("body", "message"), [
    ("engine.sync_threads(1)", "sync_threads() takes no arguments"),
    ("engine.sync_warp(1.5)", "sync_warp() takes a uint32"),
    ("a = engine.shared.array(shape=x.shape[0], dtype=float)", "known while compiling"),
    ("a = engine.shared.array(shape=4, dtype=float, layout='diagonal')", "the layout of a shared array is one of"),
    ("a = engine.shared.array(shape=20000, dtype=float); a[0] = x[0]; x[1] = a[1]", "more than the 49152 bytes"),
    ("x[0] = engine.warp_shuffle_down(x[0])", "warp_shuffle_down() takes value, delta"),
    ("y = engine.warp_shuffle_down(x, 1)", "moves numbers and what consists of them"),
    ("b = engine.warp_ballot(engine.vec3())", "takes a truth value"),
    ("engine.thread_id(0)", "thread_id() takes no arguments"),
])  # fmt: skip
def test_wrong_calls(body: str, message: str, tmp_path) -> None:
    assert message in refused(body, tmp_path)


def test_grid_stride_and_barriers_exclude_each_other() -> None:
    with pytest.raises(CompileError, match=r"shared.array\(\) and grid_stride exclude each other"):
        ptx(engine.Kernel(block_sums.fn, options={"grid_stride": True}))


@pytest.mark.skipif(find_ptxas() is None, reason="needs ptxas: pip install weft-engine[ptxas]")
@pytest.mark.parametrize("arch", ["sm_75", "sm_120"])
@pytest.mark.parametrize("kernel", ALL, ids=lambda k: k.name)
def test_they_assemble(kernel: engine.Kernel, arch: str) -> None:
    assert assemble(ptx(kernel, arch), arch).registers < 64
