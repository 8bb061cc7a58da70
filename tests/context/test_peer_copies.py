"""Copies between GPUs go from one to the other, in the order of their work; through the host where they cannot."""

import itertools

import numpy as np
import pytest

import engine
from engine.compiler import lang as k
from engine.context import array, launch, zeros
from tests.context.test_graph_driver import Noting

_numbers = itertools.count()


@k.kernel
def double(x: k.array(dtype=int)):
    x[k.tid()] *= 2


@pytest.fixture
def pair(monkeypatch):
    """Two GPUs of one driver, whose calls are noted."""
    from engine.context import device as devices
    from engine.context.device_cuda import CudaDevice
    from engine.context.emulator.driver import Driver

    driver, found = Noting(Driver(80, 90)), []
    for ordinal in range(2):
        name = f"emu:peer{next(_numbers)}"
        found.append(CudaDevice(name, driver, ordinal, name_arrays=driver.name_arrays))
        monkeypatch.setitem(devices._devices, name, found[-1])
    return found


def through_host(device):
    return device.driver.count("cuMemcpyDtoHAsync") + device.driver.count("cuMemcpyHtoDAsync")


def test_dense_arrays_go_in_one_copy(pair):
    first, second = pair
    x = array(np.arange(12, dtype=np.int32), device=first)
    first.driver.calls.clear()
    y = x.to(second)
    assert y.device is second and first.driver.count("cuMemcpyPeerAsync") == 1 and not through_host(first)
    assert first.driver.count("cuCtxEnablePeerAccess") == first.driver.count("cuMemPoolSetAccess") == 1
    launch(double, 12, [y], device=second)
    x[3:6] = y[:3]
    assert x.numpy().tolist() == [0, 1, 2, 0, 2, 4, *range(6, 12)] and first.driver.count("cuMemcpyPeerAsync") == 2
    assert engine.is_peer_access_supported(first, second) and engine.is_peer_access_supported(second, second)
    assert not engine.is_peer_access_supported("cpu", first) and not engine.is_peer_access_supported("cpu", "cpu")


def test_gaps_and_layouts_are_made_dense_on_the_way(pair, rng):
    first, second = pair
    values = rng.standard_normal((6, 5, 3)).astype(np.float32)
    x = array(values, dtype=k.vec3, device=first)
    planes = zeros((3, 5), dtype=k.vec3, layout="planes", device=second)
    expected = values.copy()
    first.driver.calls.clear()
    planes.assign(x[::2])
    assert first.driver.count("cuMemcpyPeerAsync") == 1 and not through_host(first)
    assert (planes.numpy() == values[::2]).all()
    x[1::2, ::-1] = planes
    expected[1::2, ::-1] = expected[::2]
    assert (x.numpy() == expected).all()
    x[0] = zeros(1, dtype=k.vec3, device=second)  # repeated
    assert not x.numpy()[0].any()


def test_both_devices_wait_for_the_copy(pair):
    first, second = pair
    x, y = zeros(4, dtype=int, device=first), zeros(4, dtype=int, device=second)
    y.assign(x)
    first.driver.calls.clear()
    y.assign(x)
    calls = [c for c in first.driver.calls if c in ("cuEventRecord", "cuStreamWaitEvent", "cuMemcpyPeerAsync")]
    assert calls == ["cuEventRecord", "cuStreamWaitEvent", "cuMemcpyPeerAsync", "cuEventRecord", "cuStreamWaitEvent"]
    assert first.driver.count("cuStreamSynchronize") == 0, "Python waits for nothing"


def test_without_peers_values_go_through_the_host(pair, monkeypatch):
    first, second = pair
    monkeypatch.setattr(first.driver.driver, "cuDeviceCanAccessPeer", lambda *args: (first.driver.CUresult(0), 0))
    x = array(np.arange(5, dtype=np.int32), device=first)
    assert x.to(second).list() == list(range(5)) and first.driver.count("cuMemcpyPeerAsync") == 0
    assert not engine.is_peer_access_supported(first, second)


def test_a_tape_goes_through_copies_between_gpus(pair):
    first, second = pair
    x = array([1.0, 2.0], device=first, requires_grad=True)
    y = zeros(2, device=second, requires_grad=True)
    with engine.Tape() as tape:
        engine.copy(y, x)
    tape.backward(grads={y: array([3.0, 4.0], device=second)})
    assert x.grad.list() == [3.0, 4.0] and y.list() == [1.0, 2.0]


def test_numbered_emulated_gpus_are_peers():
    x = array([1, 2, 3], dtype=int, device="emu")
    y = x.to("emu:1")
    assert y.device.name == "emu:1" and y.list() == [1, 2, 3] and engine.get_device("emu:0") is x.device
    assert y.device.driver is x.device.driver and engine.is_peer_access_supported("emu", "emu:1")
    assert engine.get_device("emu:sm_90:1").arch == 90
    with pytest.raises(engine.errors.DeviceError, match="number below 16"):
        engine.get_device("emu:16")


def test_copies_on_one_gpu_stay_there(pair, rng):
    gpu = pair[0]
    values = rng.integers(0, 99, (8, 6)).astype(np.int32)
    x = array(values, device=gpu)
    gpu.driver.calls.clear()
    y = engine.clone(x)
    y[:, 1] = x[:, 0]
    y[2:7] = y[:5]  # they overlap
    y[0].fill_(-1)
    y[7, 5] = 1000
    line = engine.full(7, 2.5, dtype=k.float64, device=gpu)  # no word of four bytes: through the host
    doubles = zeros(7, dtype=k.float64, device=gpu)
    doubles.zero_()
    expected = values.copy()
    expected[:, 1] = values[:, 0]
    expected[2:7] = expected[:5].copy()
    expected[0], expected[7, 5] = -1, 1000
    assert gpu.driver.count("cuMemcpyHtoDAsync") == 1 and gpu.driver.count("cuMemcpyDtoHAsync") == 0
    assert (y.numpy() == expected).all() and line.list() == [2.5] * 7 and doubles.list() == [0.0] * 7
