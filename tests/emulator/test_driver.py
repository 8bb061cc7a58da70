"""The emulated driver has the surface of the real binding, and the device above it is the same code for both."""
# ruff: noqa: E501 (several instructions in a line keep PTX readable)

import ctypes
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import cuda.bindings.driver as real
import numpy as np
import pytest

import engine
from engine.context import array, device_cuda, get_device, zeros
from engine.context.emulator.driver import CALLS, Driver
from engine.debug import trace, trace_of
from engine.errors import DeviceError
from tests.emulator.one_instruction import kernel_text


@pytest.mark.parametrize("name", [*CALLS, "cuGetErrorName", "cuGetErrorString"])
def test_names_and_parameters_are_those_of_the_installed_package(name: str) -> None:
    documented = (getattr(real, name).__doc__ or "").split("\n")[0]
    match = re.match(rf"{name}\((.*)\)", documented)
    assert match, documented
    names = [part.split(":")[0].split("=")[0].split()[-1].lstrip("*") for part in _parts(match[1])]
    assert list(inspect.signature(getattr(Driver, name)).parameters)[1:] == names


def _parts(text: str) -> list[str]:
    """The parameters between the commas that are not inside brackets."""
    found, depth = [""], 0
    for c in text:
        depth += (c in "([") - (c in ")]")
        if c == "," and not depth:
            found.append("")
        else:
            found[-1] += c
    return [part.strip() for part in found if part.strip()]


@pytest.fixture
def driver() -> Driver:
    made = Driver(90)
    assert made.cuInit(0) == (real.CUresult.CUDA_SUCCESS,)
    return made


def ok(result: tuple) -> object:
    assert result[0] == real.CUresult.CUDA_SUCCESS, result
    return result[1] if len(result) == 2 else result[1:]


def test_one_device_of_the_architecture_asked_for(driver: Driver) -> None:
    major = real.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
    assert ok(driver.cuDeviceGetCount()) == 1 and ok(driver.cuDeviceGetAttribute(major, 0)) == 9
    assert driver.cuDeviceGet(1)[0] == real.CUresult.CUDA_ERROR_INVALID_DEVICE
    assert Driver(80).cuDeviceGetCount()[0] == real.CUresult.CUDA_ERROR_NOT_INITIALIZED
    with pytest.raises(AttributeError, match="the emulated driver has no cuFrobnicate"):
        driver.cuFrobnicate  # noqa: B018


def test_memory_is_copied_filled_and_freed(driver: Driver) -> None:
    ptr = ok(driver.cuMemAlloc(1000))
    assert int(ptr) % 256 == 0
    data = np.arange(250, dtype=np.float32)
    back = np.zeros_like(data)
    ok(driver.cuMemcpyHtoD(ptr, data.ctypes.data, 1000))
    ok(driver.cuMemsetD32Async(int(ptr) + 8, 0x3F800000, 2, 0))
    ok(driver.cuMemcpyDtoH(back.ctypes.data, ptr, 1000))
    data[2:4] = 1
    assert (back == data).all()
    invalid = real.CUresult.CUDA_ERROR_INVALID_VALUE
    assert driver.cuMemcpyHtoD(ptr, data.ctypes.data, 1001)[0] == invalid  # would write behind the allocation
    assert driver.cuMemcpyDtoH(back.ctypes.data, int(ptr) - 4, 8)[0] == invalid
    assert driver.cuMemAlloc(0)[0] == invalid
    assert driver.cuMemAlloc(1 << 50)[0] == real.CUresult.CUDA_ERROR_OUT_OF_MEMORY
    ok(driver.cuMemFree(ptr))
    assert driver.cuMemFree(ptr)[0] == invalid and driver.cuMemcpyDtoH(back.ctypes.data, ptr, 4)[0] == invalid
    assert ok(driver.cuMemGetInfo())[0] == driver.memory.total


def test_new_memory_is_poisoned(driver: Driver) -> None:
    ptr = ok(driver.cuMemAllocAsync(64, 0))
    assert ctypes.string_at(int(ptr), 64) == b"\xcd" * 64


def test_modules_variables_and_both_forms_of_parameters(driver: Driver) -> None:
    head = ".visible .global .align 4 .b32 table[3] = {10, 20, 30}; .const .align 8 .f64 half = 0d3FE0000000000000;"
    body = """ld.param.b64 %d0, [k_param_0]; mov.b64 %d1, table; ld.global.b32 %r1, [%d1+8]; ld.global.b32 %r2, [table+4];
        ld.const.b64 %d2, [half]; st.global.b32 [%d0], %r1; st.global.b32 [%d0+4], %r2; st.global.b64 [%d0+8], %d2;"""
    module = ok(driver.cuModuleLoadData(kernel_text(body, 1, head=head).encode() + b"\0"))
    function = ok(driver.cuModuleGetFunction(module, b"k"))
    out = ok(driver.cuMemAlloc(16))
    for params in (((int(out),), (ctypes.c_uint64,)), None):
        holder = ctypes.c_uint64(int(out))
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(holder))
        ok(driver.cuMemsetD8Async(out, 0, 16, 0))
        ok(driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, params or ctypes.addressof(pointers), 0))
        found = ctypes.string_at(int(out), 16)
        assert np.frombuffer(found, np.int32)[:2].tolist() == [30, 20] and np.frombuffer(found, np.float64)[1] == 0.5
    address, size = ok(driver.cuModuleGetGlobal(module, b"table"))
    assert size == 12 and ctypes.string_at(int(address), 12) == np.array([10, 20, 30], np.int32).tobytes()
    ok(driver.cuModuleUnload(module))
    gone = driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, ctypes.addressof(pointers), 0)
    assert gone[0] == real.CUresult.CUDA_ERROR_INVALID_HANDLE


def test_streams_and_events(driver: Driver) -> None:
    stream = ok(driver.cuStreamCreateWithPriority(0, -2))
    assert ok(driver.cuStreamGetPriority(stream)) == -2
    start, end = ok(driver.cuEventCreate(0)), ok(driver.cuEventCreate(0))
    assert driver.cuEventElapsedTime(start, end)[0] == real.CUresult.CUDA_ERROR_INVALID_HANDLE
    ok(driver.cuEventRecord(start, stream))
    ok(driver.cuEventRecord(end, stream))
    assert ok(driver.cuEventElapsedTime(start, end)) >= 0
    ok(driver.cuStreamDestroy(stream))
    assert driver.cuStreamSynchronize(stream)[0] == real.CUresult.CUDA_ERROR_INVALID_HANDLE


def test_arrays_on_the_emulated_device() -> None:
    device = get_device("emu")
    assert device is get_device("cpu:precise") and not device.is_cpu and not device.is_cuda and device.arch == 80
    a = array(np.arange(12, dtype=np.float32).reshape(4, 3), dtype=engine.vec3, device=device)
    copy = a.numpy()
    copy[:] = 0
    assert (a.numpy() == np.arange(12).reshape(4, 3)).all()  # numpy() is a copy
    a[1:3].fill_(9.0)
    a[0] = engine.vec3(1, 2, 3)
    assert a.numpy().tolist() == [[1, 2, 3], [9, 9, 9], [9, 9, 9], [9, 10, 11]]
    planes = engine.clone(a, layout="planes")
    assert planes[::-1].numpy().tolist() == a.numpy()[::-1].tolist() and planes.to("cpu").device.name == "cpu"
    assert (np.asarray(a) == a.numpy()).all() and not hasattr(a, "__array_interface__")
    assert not hasattr(a, "__cuda_array_interface__")
    other = zeros(4, dtype=engine.vec3, device="emu:sm_90")
    engine.copy(other, a)
    assert other.numpy().tolist() == a.numpy().tolist()
    free = device.free_memory
    b = zeros(1000, device=device)
    assert device.free_memory == free - 4000
    del b
    assert device.free_memory == free
    with pytest.raises(TypeError, match="sharing memory needs"):
        array(np.zeros(3, np.float32), device=device, copy=False)


def test_what_is_missing_is_said_in_plain_words(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeviceError, match="unknown device 'emu:sm_33'; emulated GPUs are emu:sm_75"):
        get_device("emu:sm_33")
    with pytest.raises(DeviceError, match="unknown device 'cuda:x'; GPUs are numbered"):
        device_cuda._open_cuda("cuda:x")
    statuses = {"cuInit": lambda flags: (real.CUresult.CUDA_ERROR_NO_DEVICE,),
                "cuGetErrorName": lambda error: (0, b"CUDA_ERROR_NO_DEVICE")}  # fmt: skip
    for name, function in statuses.items():
        monkeypatch.setattr(real, name, function)
    with pytest.raises(DeviceError, match="cuInit says CUDA_ERROR_NO_DEVICE; in a container"):
        device_cuda._open_cuda("cuda")


@engine.kernel
def fill_beyond(x: engine.array(dtype=float), by: int):
    i = engine.tid()
    x[i + by] = 1.0


def test_a_device_whose_launches_are_always_traced() -> None:
    assert get_device("cpu:fast") is get_device("cpu")
    device = get_device("cpu:trace")
    assert device is get_device("emu:trace") and device is not get_device("emu") and device.arch == 80
    assert get_device("emu:sm_90:trace").arch == 90
    report = trace_of("cpu:trace")
    x = engine.zeros(40, device="cpu:trace")
    engine.launch(fill_beyond, 40, [x, 0], device="cpu:trace")
    assert (x.numpy() == 1).all() and not report.findings
    engine.launch(fill_beyond, 40, [x, 1], device="cpu:trace")  # goes on, and is a finding
    (found,) = report.findings
    assert (found.check, found.array, found.index, found.threads) == ("memcheck", "x", 40, (39,))
    with trace(["mem"]) as inner:  # a block's own report takes the place of the device's
        engine.launch(fill_beyond, 40, [x, 2], device="cpu:trace")
    assert inner.findings and len(report.findings) == 1
    with pytest.raises(ValueError, match="device 'emu' is not traced"):
        trace_of("emu")
    with pytest.raises(DeviceError, match="each also with ':trace' behind it"):
        get_device("emu:sm_81:trace")


def test_the_report_of_a_traced_device_comes_out_when_python_ends(tmp_path: Path) -> None:
    script = tmp_path / "beyond.py"
    script.write_text(
        "import engine\n\n@engine.kernel\ndef beyond(x: engine.array(dtype=float)):\n    i = engine.tid()\n"
        "    x[i + 1] = 1.0\n\nengine.launch(beyond, 8, [engine.zeros(8)])\n"
    )
    environment = os.environ | {"ENGINE_DEVICE": "cpu:trace"}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and not done.stdout
    assert f"device emu:trace: memcheck: out of bounds in beyond_kernel, {script}:6: store of 4 bytes" in done.stderr
