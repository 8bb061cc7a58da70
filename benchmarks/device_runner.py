"""Runs a pack of kernels on an NVIDIA GPU: compares what they write with the CPU's bits, and times them by events.

    python device_runner.py [--out results.json] [--seconds 300] [--only TEXT]

This file is part of every pack, next to `manifest.json`, and needs NumPy and cuda-bindings alone. A *run* of the
manifest is a sequence of launches over some buffers: one kernel, or all of a scene's frame. It begins with the
buffers' contents from the pack. `Device(driver)` takes any driver with the calls of `cuda.bindings.driver`.
"""

import argparse
import base64
import ctypes
import hashlib
import json
import statistics
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

MOST_REPEATS = 20
TIMED_SECONDS = 0.5  # of one run, its preparation included
CLOSE = 1e-4  # relative to the largest number, where atomics add floats in any order


class PackError(Exception):
    """A pack that is damaged, or a call that the driver refused."""


class Pack:
    """The manifest and the files of a pack: a folder, or a zip file."""

    def __init__(self, path: Path):
        self.path = path
        self._zip = None if path.is_dir() else zipfile.ZipFile(path)
        self.manifest: dict[str, Any] = json.loads(self.read("manifest.json"))

    def read(self, name: str) -> bytes:
        """The bytes of a file. Raises PackError where there is none."""
        try:
            return (self.path / name).read_bytes() if self._zip is None else self._zip.read(name)
        except (OSError, KeyError):
            raise PackError(f"the pack has no file '{name}'") from None

    def contents(self, buffer: dict[str, Any]) -> np.ndarray:
        """What a buffer holds before the run, as bytes: a stored piece, repeated until it is full."""
        piece = np.frombuffer(self.read(f"data/{buffer['before']}"), np.uint8)
        if digest(piece) != buffer["before"]:
            raise PackError(f"data/{buffer['before']} is damaged")
        return np.resize(piece, buffer["nbytes"])


def digest(data: np.ndarray) -> str:
    """Hexadecimal hash of an array's bytes."""
    return hashlib.blake2b(np.ascontiguousarray(data).view(np.uint8).data, digest_size=16).hexdigest()


def words(data: np.ndarray) -> np.ndarray:
    """Bytes as 32-bit words; what is left at the end is dropped."""
    return data[: len(data) // 4 * 4].view(np.uint32)


class Device:
    """GPU number 0 of a driver: memory, modules, launches and events."""

    def __init__(self, driver: Any):
        self.driver = driver
        self.ask("cuInit", 0)
        self.number = self.ask("cuDeviceGet", 0)
        self.ask("cuCtxSetCurrent", self.ask("cuDevicePrimaryCtxRetain", self.number))
        self.stream = self.ask("cuStreamCreate", 0)
        self.events = [self.ask("cuEventCreate", 0) for _ in range(2)]
        self.modules: dict[str, Any] = {}

    def ask(self, call: str, *args: Any) -> Any:
        """A call of the driver and its result. Raises PackError with the status."""
        status, *results = getattr(self.driver, call)(*args)
        if status != 0:
            name, text = (self.driver.cuGetErrorName(status)[1], self.driver.cuGetErrorString(status)[1])
            raise PackError(f"{call}: {(name or b'?').decode()}: {(text or b'').decode()}")
        return results[0] if len(results) == 1 else tuple(results)

    def renewed(self) -> "Device":
        """This device in a new context: a kernel that failed spoils the old one for all that come after it."""
        self.driver.cuDevicePrimaryCtxRelease(self.number)
        return Device(self.driver)

    def describe(self) -> dict[str, Any]:
        """Name, compute capability and driver."""
        kinds = self.driver.CUdevice_attribute
        major, minor = (
            self.ask("cuDeviceGetAttribute", getattr(kinds, f"CU_DEVICE_ATTRIBUTE_{part}"), self.number)
            for part in ("COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR")
        )
        name = self.ask("cuDeviceGetName", 256, self.number).decode().rstrip("\0")
        return {"name": name, "capability": f"{major}.{minor}", "driver": self.ask("cuDriverGetVersion")}

    def function(self, ptx: bytes, symbol: str) -> Any:
        """The entry of a module, which is loaded once."""
        key = hashlib.blake2b(ptx).hexdigest()
        if key not in self.modules:
            self.modules[key] = self.ask("cuModuleLoadData", ptx + b"\0")
        return self.ask("cuModuleGetFunction", self.modules[key], symbol.encode())

    def pointer(self, address: int) -> Any:
        return self.driver.CUdeviceptr(address)

    def alloc(self, nbytes: int) -> int:
        return int(self.ask("cuMemAlloc", max(nbytes, 4)))

    def upload(self, address: int, data: np.ndarray) -> None:
        if data.nbytes:
            self.ask("cuMemcpyHtoD", self.pointer(address), data.ctypes.data, data.nbytes)

    def download(self, address: int, nbytes: int) -> np.ndarray:
        data = np.empty(nbytes, np.uint8)
        if nbytes:
            self.ask("cuMemcpyDtoH", data.ctypes.data, self.pointer(address), nbytes)
        return data


class Run:
    """One run of the manifest in the memory of a device."""

    def __init__(self, device: Device, pack: Pack, run: dict[str, Any]):
        self.device, self.pack, self.run = device, pack, run
        self.owned: list[int] = []
        self.kept: list[Any] = []  # launch blocks, and the pointers to them that a launch is given
        self.pristine = [self._placed(pack.contents(buffer)) for buffer in run["buffers"]]
        self.buffers = [self._own(buffer["nbytes"]) for buffer in run["buffers"]]
        self.launches = [self._prepared(launch) for launch in run["launches"]]

    def _own(self, nbytes: int) -> int:
        self.owned.append(self.device.alloc(nbytes))
        return self.owned[-1]

    def _placed(self, data: np.ndarray) -> int:
        address = self._own(data.nbytes)
        self.device.upload(address, data)
        return address

    def _prepared(self, launch: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments of `cuLaunchKernel`, the addresses of this device in the launch block."""
        kernel = self.pack.manifest["kernels"][launch["kernel"]]
        function = self.device.function(self.pack.read(kernel["file"]), kernel["symbol"])
        block = np.frombuffer(bytearray(base64.b64decode(launch["block"])), np.uint8)
        for at, buffer, within in launch["pointers"]:
            block[at : at + 8] = np.array([self.buffers[buffer] + within], np.uint64).view(np.uint8)
        value = np.array([self._placed(block)], np.uint64) if kernel["by_pointer"] else block
        params = (ctypes.c_void_p * 1)(value.ctypes.data)
        self.kept += [value, params]
        threads, shared = launch["block_dim"], 0
        grid = -(-launch["size"] // threads)
        if kernel["sharing"]:  # a block of at most so many threads is one thread of the launch
            most, shared = kernel["sharing"]
            threads, grid = min(threads, most), launch["size"]
        if shared:
            kind = self.device.driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self.device.ask("cuFuncSetAttribute", function, kind, shared)
        return function, grid, 1, 1, threads, 1, 1, shared, self.device.stream, ctypes.addressof(params), 0

    def restore(self) -> None:
        """Every buffer as it is before the run."""
        for address, source, buffer in zip(self.buffers, self.pristine, self.run["buffers"]):
            if buffer["nbytes"]:
                to, origin = self.device.pointer(address), self.device.pointer(source)
                self.device.ask("cuMemcpyDtoDAsync", to, origin, buffer["nbytes"], self.device.stream)

    def once(self) -> float:
        """Launch everything on restored buffers; the device's milliseconds from the first launch to the last."""
        self.restore()
        first, last = self.device.events
        self.device.ask("cuEventRecord", first, self.device.stream)
        for number in self.run["order"]:
            self.device.ask("cuLaunchKernel", *self.launches[number])
        self.device.ask("cuEventRecord", last, self.device.stream)
        self.device.ask("cuEventSynchronize", last)
        return float(self.device.ask("cuEventElapsedTime", first, last))

    def by_kernel(self) -> dict[str, list[float]]:
        """Milliseconds of all launches of each kernel, and their number, the dearest kernel first."""
        self.restore()
        marks = [self.device.ask("cuEventCreate", 0) for _ in range(len(self.run["order"]) + 1)]
        self.device.ask("cuEventRecord", marks[0], self.device.stream)
        for number, mark in zip(self.run["order"], marks[1:]):
            self.device.ask("cuLaunchKernel", *self.launches[number])
            self.device.ask("cuEventRecord", mark, self.device.stream)
        self.device.ask("cuEventSynchronize", marks[-1])
        found: dict[str, list[float]] = {}
        for number, first, last in zip(self.run["order"], marks, marks[1:]):
            row = found.setdefault(self.run["launches"][number]["kernel"], [0.0, 0])
            row[0] += float(self.device.ask("cuEventElapsedTime", first, last))
            row[1] += 1
        for mark in marks:
            self.device.ask("cuEventDestroy", mark)
        return dict(sorted(found.items(), key=lambda item: -item[1][0]))

    def compared(self) -> list[str]:
        """For each buffer: "same", "permuted", "close" or "different" from what the CPU wrote."""
        pairs = zip(self.buffers, self.run["buffers"])
        return [self._compare(self.device.download(address, buffer["nbytes"]), buffer) for address, buffer in pairs]

    def _compare(self, found: np.ndarray, buffer: dict[str, Any]) -> str:
        if digest(found) == buffer["after"]:
            return "same"
        if digest(np.sort(words(found))) == buffer.get("sorted"):
            return "permuted"
        if "expected" in buffer:
            wanted = np.frombuffer(self.pack.read(f"data/{buffer['expected']}"), np.uint8)
            a, b = words(found), words(wanted)
            x, y = a.view(np.float32).astype(np.float64), b.view(np.float32).astype(np.float64)
            numbers = np.isfinite(y) & (np.abs(y) > 1e-30)  # integers look like smaller ones
            scale = np.abs(y[numbers]).max(initial=0.0)
            with np.errstate(invalid="ignore"):
                if ((a == b) | numbers & (np.abs(x - y) <= CLOSE * scale)).all():
                    return "close"
        return "different"

    def close(self) -> None:
        for address in self.owned:
            self.device.ask("cuMemFree", self.device.pointer(address))


ALLOWED = {"exact": {"same"}, "permuted": {"same", "permuted"}, "close": {"same", "permuted", "close"}}


def run_one(device: Device, pack: Pack, run: dict[str, Any], end: float) -> dict[str, Any]:
    """Result and times of one run."""
    row: dict[str, Any] = {
        "name": run["name"], "kind": run["kind"], "launches": len(run["order"]), "order": run["order_class"],
    }  # fmt: skip
    prepared = Run(device, pack, run)
    prepared.once()
    verdicts = prepared.compared()
    times: list[float] = []
    limit = min(end, time.monotonic() + TIMED_SECONDS)
    while len(times) < MOST_REPEATS and (len(times) < 3 or time.monotonic() < limit):
        times.append(prepared.once())
    if run["kind"] == "frame":
        row["kernels"] = prepared.by_kernel()
    prepared.close()  # after an error the whole context goes
    worst = max(verdicts, key=["same", "permuted", "close", "different"].index, default="same")
    median = statistics.median(times)
    row |= {"bits": worst, "ok": worst in ALLOWED[run["order_class"]], "ms": median, "ms_least": min(times)}
    if worst == "different":
        row["wrong_buffers"] = [i for i, verdict in enumerate(verdicts) if verdict == "different"]
    if run.get("moved") and median > 0:
        row["gb_per_s"] = run["moved"] / median / 1e6
    return row


def run_pack(pack: Pack, driver: Any, seconds: float = 300.0, only: str = "") -> dict[str, Any]:
    """Results of all runs whose name contains `only`; runs that `seconds` leave no time for are listed as such."""
    start = time.monotonic()
    device = Device(driver)
    rows, late = [], []
    for run in pack.manifest["runs"]:
        if only not in run["name"]:
            continue
        if time.monotonic() - start > seconds:
            late.append(run["name"])
            continue
        try:
            rows.append(run_one(device, pack, run, start + seconds))
        except PackError as error:
            rows.append({"name": run["name"], "kind": run["kind"], "ok": False, "error": str(error)})
            device = device.renewed()
    return {
        "format": 1, "device": device.describe(), "pack": pack.manifest["about"], "seconds": time.monotonic() - start,
        "wrong": [row["name"] for row in rows if not row["ok"]], "not_run": late, "runs": rows,
    }  # fmt: skip


def table(results: dict[str, Any]) -> str:
    """The results for reading."""
    lines = [f"{'run':44} {'launches':>8} {'ms':>9} {'GB/s':>7}  bits"]
    for row in results["runs"]:
        if "error" in row:
            lines.append(f"{row['name']:44} {row['error']}")
            continue
        rate = f"{row['gb_per_s']:7.1f}" if "gb_per_s" in row else " " * 7
        verdict = row["bits"] + ("" if row["ok"] else "  WRONG")
        lines.append(f"{row['name']:44} {row['launches']:8} {row['ms']:9.4f} {rate}  {verdict}")
    wrong, late = len(results["wrong"]), len(results["not_run"])
    lines.append(f"{len(results['runs'])} runs, {wrong} wrong, {late} not run, {results['seconds']:.1f} s")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """0: all as the CPU, 1: something is wrong or was not run, 2: no GPU or a damaged pack."""
    parser = argparse.ArgumentParser(description="Run a pack of kernels on the GPU of this machine.")
    parser.add_argument("pack", nargs="?", default=str(Path(__file__).parent), help="folder or zip; default: here")
    parser.add_argument("--out", default="results.json", help="where the results go, as JSON")
    parser.add_argument("--seconds", type=float, default=300.0, help="no run begins after this time")
    parser.add_argument("--only", default="", help="runs whose name contains this")
    given = parser.parse_args(arguments)
    try:
        import cuda.bindings.driver as driver

        results = run_pack(Pack(Path(given.pack)), driver, given.seconds, given.only)
    except Exception as error:  # the binding has an error of its own for a missing driver
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    Path(given.out).write_text(json.dumps(results, indent=1) + "\n")
    print(table(results))
    return 1 if results["wrong"] or results["not_run"] else 0


if __name__ == "__main__":
    sys.exit(main())
