"""Traces: every access of the kernels that run meanwhile is recorded and examined.

    with Trace() as trace: …        →  trace.findings, trace.metrics, trace.kernels

While a trace is on, bad accesses do not stop a launch: the lanes that made them take no part, and the report tells.
"""

from __future__ import annotations

import atexit
import ctypes
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.compiler.warp_layout import LANES, LOG_RECORD
from engine.context.emulator import sanitize
from engine.errors import ConfigError

if TYPE_CHECKING:
    from engine.context.emulator.loading import LoadedFunction
    from engine.context.emulator.memory import Memory
    from engine.context.emulator.shadow import Shadow

CHECKS = {"mem": "memcheck", "init": "initcheck", "race": "racecheck", "sync": "synccheck"}
BUFFER_BYTES = 16 << 20
NEAR = 256  # an address that far before an array is meant for it
MOST_REFUSED = 100_000  # records of accesses that were refused, kept for one launch
RECORD = np.dtype(
    [("site", "u8"), ("wanted", "u4"), ("taken", "u4"), ("block", "u8"), ("warp", "u4"), ("epoch", "u4"),
     ("address", "u8", LANES)]
)  # fmt: skip
assert RECORD.itemsize == LOG_RECORD


@dataclass(frozen=True)
class Finding:
    """Something wrong in a kernel. `line` and `other_line` are lines of `file`; `threads` are numbers in the grid."""

    check: str  # "memcheck", "initcheck", "racecheck", "synccheck"
    kind: str
    space: str  # "global", "shared", "local", ""
    kernel: str
    file: str
    line: int
    other_line: int
    array: str  # name of the parameter, where it is known
    index: int  # element of the array, or byte of a block's shared memory
    threads: tuple[int, ...]
    message: str


@dataclass
class KernelSummary:
    """What the launches of a kernel did together."""

    kernel: str
    launches: int = 0
    warp_instructions: int = 0
    thread_instructions: int = 0
    records: int = 0
    schedules: dict[str, float] = field(default_factory=dict)  # share of active lanes of the last launch, by schedule
    depends: bool = False  # some schedule left other memory
    dropped: int = 0  # accesses that were too many to examine

    @property
    def efficiency(self) -> float:
        """Share of the lanes that took part in an instruction, on average."""
        return self.thread_instructions / (LANES * self.warp_instructions) if self.warp_instructions else 1.0


active: Trace | None = None  # the trace whose `with` block is being run


class Trace:
    """Records the launches on emulated GPUs in its `with` block. `checks` are some of mem, init, race, sync.

    `findings` is a list of `Finding`; `metrics` has what each line's accesses would cost a GPU, `kernels` what each
    kernel did. Raises ConfigError for a check that does not exist.
    """

    def __init__(self, checks: Sequence[str] = tuple(CHECKS), schedules: bool = False):
        unknown = [check for check in checks if check not in CHECKS]
        if unknown or not checks:
            raise ConfigError("check", f"expected some of {', '.join(CHECKS)}, got {', '.join(unknown) or 'none'}")
        self.schedules = schedules
        self.checks = {CHECKS[check] for check in checks}
        self.findings: list[Finding] = []
        self._summaries: dict[str, KernelSummary] = {}
        self._known: set[tuple[Any, ...]] = set()
        self._lines: dict[tuple[str, str, int, str], list[float]] = {}
        self.arrays: list[tuple[int, str, int]] = []  # of the next launch: address, name, bytes between elements
        self._before: Trace | None = None

    def __enter__(self) -> Trace:
        global active
        self._before, active = active, self
        return self

    def __exit__(self, *error: object) -> None:
        global active
        active = self._before

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """One row for each line that accesses global or shared memory."""
        return [
            {"kernel": kernel, "file": file, "line": line, "what": what, "requests": int(n),
             "per_request": round(total / n, 3), "unit": "words of a bank" if "shared" in what else "32-byte sectors"}
            for (kernel, file, line, what), (n, total) in sorted(self._lines.items())
        ]  # fmt: skip

    @property
    def kernels(self) -> list[dict[str, Any]]:
        """One row for each kernel."""
        return [{**asdict(row), "efficiency": round(row.efficiency, 4)} for row in self._summaries.values()]

    def as_dict(self) -> dict[str, Any]:
        """The report as `engine trace --json` prints it."""
        findings = [{**asdict(finding), "threads": list(finding.threads)} for finding in self.findings]
        return {"findings": findings, "metrics": self.metrics, "kernels": self.kernels}

    def note_schedules(self, kernel: str, efficiencies: dict[str, float], same: bool) -> None:
        """Take over what a launch did under each schedule, and whether it left the same memory."""
        summary = self._summaries.setdefault(kernel, KernelSummary(kernel))
        summary.schedules = {name: round(share, 4) for name, share in efficiencies.items()}
        summary.depends |= not same

    def recorder(self, memory: Memory, function: LoadedFunction, params: bytes, block_threads: int, shared: int,
                 shared_size: int) -> Recorder:  # fmt: skip
        """What records a launch with these parameters."""
        from engine.context.emulator.shadow import Shadow  # its kernel is read when it is first wanted

        init, race = "initcheck" in self.checks, "racecheck" in self.checks
        stored = None
        if function.stored is not None:
            at = {variable.name: offset for variable, offset in function.code.params}
            places = [at[name] + offset for name, offset in function.stored]
            stored = [int.from_bytes(params[place : place + 8], "little") for place in places]
        sites = function.code.sites
        return Recorder(Shadow(memory, sites, block_threads, shared, shared_size, init, race, stored))

    def examine(self, memory: Memory, function: LoadedFunction, recorder: Recorder, block_threads: int, shared: int,
                after: dict[str, int]) -> None:  # fmt: skip
        """Take over what a launch recorded."""
        summary = self._summaries.setdefault(function.name, KernelSummary(function.name))
        records = recorder.refused()
        summary.launches += 1
        summary.warp_instructions += after["warp_instructions"]
        summary.thread_instructions += after["thread_instructions"]
        summary.records += recorder.count
        summary.dropped += recorder.shadow.dropped
        launch = sanitize.Launch(memory, function.code.sites, records, block_threads, shared)
        for fault in sanitize.faults(launch, self.checks, recorder.shadow.found()):
            self._add(function, fault)
        costs = recorder.shadow.costs
        for site in np.flatnonzero(costs[:, 0]):
            file, line = function.module.source_of(function.code.sites[site].loc)
            what = f"{function.code.sites[site].what} {function.code.sites[site].space}"
            row = self._lines.setdefault((function.name, file, line, what), [0.0, 0.0])
            row[0] += costs[site, 0]
            row[1] += costs[site, 1]
        self.arrays = []

    def _add(self, function: LoadedFunction, fault: sanitize.Fault) -> None:
        sites = function.code.sites
        site, other = sites[fault.site], sites[fault.other] if fault.other >= 0 else None
        file, line = function.module.source_of(site.loc)
        other_line = function.module.source_of(other.loc)[1] if other is not None else 0
        key = (fault.check, fault.kind, function.name, *sorted((line or site.line, other_line)))
        if key in self._known:
            return
        self._known.add(key)
        array, index = self._place(fault)
        space = "global" if site.space == "generic" else site.space
        where = f" of '{array}'[{index}]" if array else ""
        message = fault.message if not where else f"{fault.message}{where}"
        found = Finding(fault.check, fault.kind, space, function.name, file, line, other_line, array, index,
                        fault.threads, message)  # fmt: skip
        self.findings.append(found)

    def _place(self, fault: sanitize.Fault) -> tuple[str, int]:
        """The array and the element that an address belongs to; near misses count for the nearest array."""
        if fault.offset >= 0:
            return "", fault.offset
        if not fault.address or not self.arrays:
            return "", 0
        begin, name, stride = min(self.arrays, key=lambda a: (fault.address < a[0] - NEAR, abs(fault.address - a[0])))
        return name, (fault.address - begin) // stride


class Recorder:
    """The records of one launch: a buffer that the code fills; when it is full, the launch's shadow reads it."""

    def __init__(self, shadow: Shadow) -> None:
        self.shadow = shadow
        self.count = 0  # of all records
        self._buffer = np.empty(BUFFER_BYTES // LOG_RECORD * LOG_RECORD, np.uint8)
        self._refused: list[np.ndarray] = []
        self._kept = 0
        self._error: Exception | None = None
        self._used: ctypes.c_uint64 | None = None
        self._hook = ctypes.CFUNCTYPE(None)(self._empty)

    def fields(self) -> dict[str, int]:
        """What the launch's context needs."""
        hook = ctypes.cast(self._hook, ctypes.c_void_p).value or 0
        return {"log": self._buffer.ctypes.data, "log_size": self._buffer.nbytes, "hook": hook, "collect": 1}

    def watch(self, used_at: int) -> None:
        """`used_at`: where the context counts the bytes in the buffer."""
        self._used = ctypes.c_uint64.from_address(used_at)

    def _empty(self) -> None:
        assert self._used is not None
        found = self._buffer[: self._used.value].view(RECORD)
        self._used.value = 0
        self.count += len(found)
        rows = np.flatnonzero(found["wanted"] != found["taken"])[: MOST_REFUSED - self._kept]
        if len(rows):
            self._refused.append(found[rows])
            self._kept += len(rows)
        try:
            self.shadow.feed(found)
        except Exception as error:  # machine code is the caller: it goes on, and the launch raises it when it is over
            self._error = error

    def refused(self) -> np.ndarray:
        """Records of accesses that some lanes were not allowed, and of barriers, in the order of time."""
        self._empty()
        if self._error is not None:
            raise self._error
        return np.concatenate(self._refused) if self._refused else np.empty(0, RECORD)


def table(report: dict[str, Any], metrics: bool = False) -> str:
    """A trace's report for people."""
    lines = []
    for f in report["findings"]:
        place = f"{f['file']}:{f['line']}" + (f" and line {f['other_line']}" if f["other_line"] else "")
        threads = ", ".join(map(str, f["threads"]))
        lines.append(f"{f['check']}: {f['kind']} in {f['kernel']}, {place}: {f['message']} (threads {threads})")
    lines.append(f"{len(report['findings'])} findings in {len(report['kernels'])} kernels")
    for k in report["kernels"]:
        dropped = f", {k['dropped']} accesses were too many to check" if k["dropped"] else ""
        lines.append(f"{k['kernel']:32} {k['launches']} launches, {k['thread_instructions']} thread instructions, "
                     f"{100 * k['efficiency']:.0f} % of the lanes active{dropped}")  # fmt: skip
        if k["schedules"]:
            shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in k["schedules"].items())
            lines.append(f"    lanes active by schedule: {shares}; " + (
                "the memory afterwards depends on the schedule" if k["depends"] else "the same memory"))  # fmt: skip
    for m in report["metrics"] if metrics else ():
        lines.append(f"{m['file']}:{m['line']} {m['what']}: {m['per_request']:g} {m['unit']} a request")
    return "\n".join(lines)


def report_at_exit(device: str, report: Trace) -> None:
    """When Python ends, what a device's own trace found is written to stderr."""

    def show() -> None:
        if report.findings:
            print(f"device {device}: {table(report.as_dict())}", file=sys.stderr)

    atexit.register(show)
