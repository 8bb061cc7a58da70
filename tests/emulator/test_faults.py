"""What goes wrong on the emulated GPU is an error with its place, never the end of the process."""
# ruff: noqa: E501 (several instructions in a line keep PTX readable)

import numpy as np
import pytest

import engine
from engine.config import config
from engine.context import array, load_ptx, zeros
from engine.errors import BoundsError, DeviceError, LaunchError
from tests.emulator.one_instruction import kernel_text


@engine.kernel
def shifted(x: engine.array(dtype=float), offset: int):
    i = engine.tid()
    x[i + offset] = 1.0


@pytest.mark.parametrize(
    "offset,where",
    [(1, "0 bytes behind an allocation of 400 bytes"), (-1, "4 bytes before an allocation of 400 bytes")],
)
def test_out_of_bounds_by_one(offset: int, where: str) -> None:
    x = zeros(100, device="emu")
    with pytest.raises(DeviceError) as raised:
        engine.launch(shifted, 100, [x, offset], device="emu")
    error, line = raised.value, shifted.func.source.first_line + 3
    assert error.call == "cuLaunchKernel" and error.code == 700 and "CUDA_ERROR_ILLEGAL_ADDRESS" in error.name
    thread = 99 if offset > 0 else 0
    assert f"test_faults.py:{line}" in error.name and f"thread ({thread}, 0, 0)" in error.name and where in error.name
    inside = x.numpy()
    assert inside.sum() == (99 if offset > 0 else 31)  # the others of that warp and of those before did their work
    engine.launch(shifted, 100, [x, 0], device="emu")  # and the device goes on
    assert (x.numpy() == 1).all()


def test_checked_mode_names_the_array_on_the_emulated_gpu_too() -> None:
    with config.scope(checked=True):
        x = zeros(100, device="emu")
        with pytest.raises(BoundsError) as raised:
            engine.launch(shifted, 100, [x, 1], device="emu")
        assert raised.value.index == 100 and raised.value.argument == "x" and (x.numpy()[1:] == 1).all()
        engine.launch(shifted, 100, [x, 0], device="emu")


def launch(body: str, args: list, threads: int = 1, **options) -> None:
    load_ptx(kernel_text(body, len(args), **options), device="emu")["k"].launch(1, threads, args)


def test_use_after_free_and_wild_addresses() -> None:
    x = zeros(64, device="emu")
    address = x.ptr
    del x
    load = "ld.param.b64 %d0, [k_param_0]; ld.global.b32 %r1, [%d0+8];"
    with pytest.raises(DeviceError, match="byte 8 of an allocation of 256 bytes that was freed"):
        launch(load, [np.uint64(address)])
    for wild in (0, 8, 1 << 40, (1 << 64) - 16):
        for access in ("ld.global.b32 %r1, [%d0+8];", "st.global.b32 [%d0+8], %r0;", "atom.global.add.u32 %r1, [%d0+8], 1;",
                       "ld.b64 %d1, [%d0];", "st.global.v4.b32 [%d0], {%r0, %r0, %r0, %r0};"):  # fmt: skip
            with pytest.raises(DeviceError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
                launch(f"ld.param.b64 %d0, [k_param_0]; {access}", [np.uint64(wild)], threads=40)


def test_misaligned_accesses() -> None:
    x = zeros(64, device="emu")
    for access, offset in (
        ("ld.global.b32 %r1, [%d0];", 2),
        ("ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%d0];", 8),
        ("atom.global.add.u64 %d1, [%d0], 1;", 4),
    ):
        with pytest.raises(DeviceError, match="CUDA_ERROR_MISALIGNED_ADDRESS.*not a multiple of"):
            launch(f"ld.param.b64 %d0, [k_param_0]; {access}", [np.uint64(x.ptr + offset)])


@pytest.mark.parametrize("space,size", [("shared", 16), ("local", 16)])
def test_bounds_of_shared_and_local_memory(space: str, size: int) -> None:
    body = f""".{space} .align 4 .b8 room[{size}]; mov.b64 %d0, room; ld.param.b64 %d1, [k_param_0]; add.s64 %d0, %d0, %d1;
        st.{space}.b32 [%d0], %r0;"""
    launch(body, [np.uint64(12)])
    for offset in (16, 13 + 3, (1 << 64) - 4, 1 << 50):
        with pytest.raises(DeviceError, match=f"a store of 4 bytes in {space} memory at offset -?[0-9]+ of 16 bytes"):
            launch(body, [np.uint64(offset)], threads=33)


def test_an_endless_loop_is_a_report() -> None:
    with config.scope(emu_budget=1_000_000):
        with pytest.raises(DeviceError, match="ran [0-9]+ instructions of warps without an end .*ENGINE_EMU_BUDGET"):
            launch("again: add.s32 %r1, %r1, 1; bra.uni again;", [np.int64(0)], threads=64)
        with pytest.raises(DeviceError, match="without an end"):  # half of the lanes have left
            launch("setp.lt.u32 %p1, %r0, 16; again: @%p1 bra again;", [np.int64(0)], threads=32)


def test_a_trap_is_an_error() -> None:
    with pytest.raises(DeviceError, match="CUDA_ERROR_LAUNCH_FAILED.*thread \\(0, 0, 0\\).*a trap"):
        launch("trap;", [np.int64(0)])


BAD_TEXT = {
    "": "INVALID_IMAGE",
    "hello": "INVALID_IMAGE",
    "// nothing\n": "there is no .version",
    ".version 7.0\n.target sm_80\n.address_size 32\n": "only .address_size 64",
    ".version 99.0\n.target sm_80\n.address_size 64\n": "UNSUPPORTED_PTX_VERSION",
    ".version 7.0\n.target sm_90\n.address_size 64\n": "NO_BINARY_FOR_GPU.*is for sm_90, this GPU is an sm_80",
    kernel_text("frobnicate.s32 %r1, %r0;", 0): "ptx line 8: unknown opcode 'frobnicate.s32'",
    kernel_text("add.frob.s32 %r1, %r0, 1;", 0): "unknown suffix '.frob'",
    kernel_text("add.s128 %r1, %r0, 1;", 0): "unknown suffix '.s128'",
    kernel_text("add.s32 %r1, %r99, 1;", 0): "unknown register '%r99'",
    kernel_text("add.s32 %d1, %r0, 1;", 0): "register %d1 has 64 bits|widened",
    kernel_text("add.s64 %r1, %r0, 1;", 0): "register %r0 has 32 bits",
    kernel_text("add.s32 %r1, %r0;", 0): "too few operands",
    kernel_text("xor.b32 %r1, %r0, !%r0;", 0): "!%r0 is no predicate",
    kernel_text("xor.pred %p1, %p1, !%q0;", 0): "unknown register '%q0'",
    kernel_text("st.global [%d0], %r0;", 0): "has no type",
    kernel_text("@%r0 add.s32 %r1, %r0, 1;", 0): "the guard %r0 is no predicate",
    kernel_text("bra nowhere;", 0): "there is no label 'nowhere'",
    kernel_text("add.s32 %r1, %r0, ;", 0): "expected an operand|too few operands",
    kernel_text("ld.global.b32 %r1, %d0;", 0): "needs an address in brackets",
    kernel_text("ld.param.b32 %r1, [k_param_7];", 1): "k_param_7",
    kernel_text("ld.param.b64 %d0, [k_param_0+4];", 1): "reads beyond the parameter",
    kernel_text("add.rz.f32 %r1, %r1, %r2;", 0): "rounds in a way that is not supported",
    kernel_text("bar.sync 1, 64;", 0): "supported for barrier 0",
    kernel_text(".shared .align 4 .b8 big[65536]; mov.b64 %d0, big;", 0): "declares 65536 bytes of shared memory",
    kernel_text("mov.b32 %r1, 0", 0): "expected",
    kernel_text("ret; }", 0)[:-20]: "end|expected",
}


@pytest.mark.parametrize("text,reason", BAD_TEXT.items(), ids=range(len(BAD_TEXT)))
def test_ptx_that_is_refused_when_it_is_loaded(text: str, reason: str) -> None:
    with pytest.raises(DeviceError, match=f"(?s)cuModuleLoadDataEx.*({reason})"):
        load_ptx(text, device="emu")


def test_random_damage_never_ends_the_process(rng: np.random.Generator) -> None:
    good = kernel_text(
        "ld.param.b64 %d0, [k_param_0]; mul.wide.u32 %d1, %r0, 4; add.s64 %d0, %d0, %d1; st.global.b32 [%d0], %r0;", 1
    )
    for _ in range(300):
        at, length = rng.integers(0, len(good)), rng.integers(1, 12)
        patch = "".join(rng.choice(list("%;,.{}[]rd019 @\n"), rng.integers(0, 6)))
        try:
            load_ptx(good[:at] + patch + good[at + length :], device="emu")
        except DeviceError:
            pass


def test_launches_that_no_gpu_takes() -> None:
    text = kernel_text("", 1)
    kernel = load_ptx(text, device="emu")["k"]
    x = zeros(4, device="emu")
    for grid, block, shared in (
        (0, 1, 0),
        (1, 0, 0),
        (1, 1025, 0),
        (1, (1, 1, 65), 0),
        ((1, 70000), 1, 0),
        (1, 1, 60_000),
    ):
        with pytest.raises(DeviceError, match="CUDA_ERROR_INVALID_VALUE.*launch of k"):
            kernel.launch(grid, block, [x], shared)
    with pytest.raises(LaunchError, match="expects 1 arguments, got 0"):
        kernel.launch(1, 1)
    with pytest.raises(LaunchError, match="an array or a NumPy scalar"):
        kernel.launch(1, 1, [3])
    with pytest.raises(LaunchError, match="expects 8 bytes, got 4"):
        kernel.launch(1, 1, [np.float32(1)])
    with pytest.raises(LaunchError, match="memory of 'emu', got 'cpu'"):
        kernel.launch(1, 1, [array([1.0], device="cpu")])
    with pytest.raises(DeviceError, match=r"there is no kernel 'q' in the module \(there are: k\)"):
        load_ptx(text, device="emu")["q"]
    with pytest.raises(TypeError, match="PTX runs on 'cuda' and 'emu'"):
        load_ptx(text, device="cpu")
    limited = load_ptx(text.replace(") {", ") .maxntid 64 {"), device="emu")["k"]
    with pytest.raises(DeviceError, match="compiled for at most 64 threads in a block, not 65"):
        limited.launch(1, 65, [x])


def test_printing(capfd: pytest.CaptureFixture[str]) -> None:
    @engine.kernel
    def show(x: engine.array(dtype=float)):
        i = engine.tid()
        if i % 2 == 0:
            print(i, x[i], i > 3)

    engine.launch(show, 6, [array([0.5, 1.5, 2.5, 3.5, 4.5, 5.5], dtype=float, device="emu")], device="emu")
    emulated = capfd.readouterr().out
    engine.launch(show, 6, [array([0.5, 1.5, 2.5, 3.5, 4.5, 5.5], dtype=float, device="cpu")], device="cpu")
    assert emulated == capfd.readouterr().out and len(emulated.splitlines()) == 3
