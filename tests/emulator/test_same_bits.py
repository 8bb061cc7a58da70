"""The same bits on the cpu, in both code shapes, and on the emulated GPU: random programs, library code, gradients."""

import ctypes
import struct
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import engine
from engine.compiler.ir import Function
from engine.compiler.pipeline import Options, compile_kernel
from engine.compiler.printer import print_function
from engine.compiler.target_ptx import ptx_target
from engine.config import config
from engine.context import array, get_device
from tests.compiler.hir_builder import pack
from tests.compiler.test_lanes import THREADS, outcome, program_arguments, programs

N = 70  # two warps, and one that is not full


def emulated(fn: Function) -> list[bytes]:
    """What the arrays hold after the program's PTX ran on the emulated GPU."""
    device = get_device("emu")
    with config.scope(kernel_cache=False):
        compiled = compile_kernel(fn, ptx_target("sm_80"), Options(opt_level=1))
    module = device.load_module(compiled.image)
    function = device.check("cuModuleGetFunction", module, compiled.symbol.encode())
    args, blocks = [], []
    for given_ in program_arguments(THREADS):
        if isinstance(given_, np.ndarray):
            block = device.alloc(given_.nbytes, zeroed=False)
            device.upload(block.ptr, given_.view(np.uint8).ravel(), given_.nbytes)
            blocks.append((block, given_.nbytes))
            given_ = SimpleNamespace(ctypes=SimpleNamespace(data=block.ptr), shape=given_.shape, strides=given_.strides)
        args.append(given_)
    launch = struct.pack("<4q", 0, THREADS, 0, 0) + pack(compiled, (THREADS,), args).tobytes()
    holder = ctypes.create_string_buffer(launch, len(launch))
    pointers = (ctypes.c_void_p * 1)(ctypes.addressof(holder))
    device.launch(function, (1, 1, 1), (64, 1, 1), 0, ctypes.addressof(pointers))
    found = [device.download(block.ptr, size).tobytes() for block, size in blocks]
    device.check("cuModuleUnload", module)
    return found


@given(fn=programs())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_random_programs(fn: Function) -> None:
    want = outcome(fn, Options(shape="thread", opt_level=1))
    assert emulated(fn) == want, print_function(fn)


@engine.kernel
def density(x: engine.array(dtype=engine.vec3), rho: engine.array(dtype=float), h: float):
    i = engine.tid()
    total = 0.0
    for j in range(x.shape[0]):
        d = engine.length(x[i] - x[j]) / h
        if d < 1.0:
            total += engine.exp(-d * d) * engine.sin(3.0 * d)
    rho[i] = total


@engine.kernel
def matrices(m: engine.array(dtype=engine.mat33), out: engine.array(dtype=engine.mat33)):
    i = engine.tid()
    q = engine.quat_from_matrix(
        engine.mat33(engine.quat_to_matrix(engine.normalize(engine.quat(m[i][0, 0], m[i][0, 1], m[i][0, 2], 1.0))))
    )
    out[i] = engine.inverse(m[i]) * engine.quat_to_matrix(q) + engine.transpose(m[i])


@pytest.mark.parametrize("kernel", [density, matrices])
def test_library_code(kernel: engine.Kernel, rng: np.random.Generator) -> None:
    points = rng.standard_normal((N, 3)).astype(np.float32)
    squares = rng.standard_normal((N, 3, 3)).astype(np.float32)
    results = []
    for device in ("cpu", "emu"):
        if kernel is density:
            out = engine.zeros(N, device=device)
            engine.launch(kernel, N, [array(points, dtype=engine.vec3, device=device), out, 1.5], device=device)
        else:
            out = engine.zeros(N, dtype=engine.mat33, device=device)
            engine.launch(kernel, N, [array(squares, dtype=engine.mat33, device=device), out], device=device)
        results.append(out.numpy().copy())
    assert (results[0].view(np.int32) == results[1].view(np.int32)).all()


def test_gradients_run_on_the_emulated_gpu(rng: np.random.Generator) -> None:
    values = rng.uniform(0.5, 2, 9).astype(np.float32)
    found = []
    for device in ("cpu", "emu"):
        x = array(values, dtype=float, device=device, requires_grad=True)
        y = engine.zeros(9, device=device, requires_grad=True)
        with engine.Tape() as tape:
            engine.launch(cubes, 9, [x, y], device=device)
        tape.backward(grads={y: engine.ones(9, device=device)})
        found.append(x.grad.numpy().copy())
    assert (found[0] == found[1]).all() and np.allclose(found[0], 3 * values**2, rtol=1e-5)


@engine.kernel
def cubes(x: engine.array(dtype=float), y: engine.array(dtype=float)):
    i = engine.tid()
    p = 1.0
    for _k in range(3):
        p = p * x[i]
    y[i] = p


def test_threads_of_python_may_launch_at_once() -> None:
    def work(factor: int) -> bool:
        x, y = engine.full(2000, float(factor), device="emu"), engine.zeros(2000, device="emu")
        for _ in range(20):
            engine.launch(cubes, 2000, [x, y], device="emu")
        return bool((y.numpy() == factor**3).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(1, 9)))


def test_counters_tell_what_ran() -> None:
    counters = get_device("emu").driver.counters
    launches, threads = counters.launches, counters.thread_instructions
    engine.launch(cubes, 9, [engine.ones(9, device="emu"), engine.zeros(9, device="emu")], device="emu")
    assert counters.launches == launches + 1 and counters.thread_instructions > threads
    assert 0 < counters.efficiency <= 1
