"""Opens a USD file: the stage, its units, its start time, and what USD itself complains about."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from engine.errors import SceneError
from engine.sim.scene_records import SceneReport

SUFFIXES = (".usd", ".usda", ".usdc", ".usdz")


@dataclass(frozen=True)
class Units:
    """SI value of one stage unit."""

    length: float  # m
    mass: float  # kg

    @property
    def density(self) -> float:
        """kg/m³ of one mass unit per cubic stage unit."""
        return self.mass / self.length**3

    @property
    def inertia(self) -> float:
        """kg·m²."""
        return self.mass * self.length**2

    @property
    def force(self) -> float:
        """N (the unit of time is the second)."""
        return self.mass * self.length

    @property
    def torque(self) -> float:
        """N·m."""
        return self.mass * self.length**2


def open_stage(path: str | os.PathLike[str]) -> Any:
    """The composed Usd.Stage of a file. Raises SceneError for a missing, damaged or foreign file."""
    from pxr import Tf, Usd

    name = os.fspath(path)
    if os.path.isdir(name):
        raise SceneError(name, "", "is a folder, not a USD file")
    if not os.path.exists(name):
        raise SceneError(name, "", "no such file")
    if not os.access(name, os.R_OK):
        raise SceneError(name, "", "cannot be read: permission denied")
    try:
        with warnings_of_usd():
            return Usd.Stage.Open(name)
    except Tf.ErrorException as error:
        raise damaged(name, error) from None


def damaged(path: str, error: Exception) -> SceneError:
    """USD's exception as ours: its first error on one line, without positions in USD's source and our path."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else "unknown error"
    if text.startswith("Error in ") and " : " in text:
        text = text.split(" : ", 1)[1]
    reason = text.strip().strip("'").replace(f"{path}:", "line ").rstrip(".")
    return SceneError(path, "", f"not a USD file, or damaged ({reason})")


def stage_units(stage: Any, path: str) -> Units:
    """metersPerUnit and kilogramsPerUnit. Raises SceneError unless both are positive numbers."""
    from pxr import UsdGeom, UsdPhysics

    length, mass = UsdGeom.GetStageMetersPerUnit(stage), UsdPhysics.GetStageKilogramsPerUnit(stage)
    for name, value in (("metersPerUnit", length), ("kilogramsPerUnit", mass)):
        if not 0.0 < value < float("inf"):
            raise SceneError(path, "", f"{name} is {value:g}, not a positive number")
    return Units(float(length), float(mass))


def up_axis(stage: Any) -> str:
    """ "y" or "z"."""
    from pxr import UsdGeom

    return str(UsdGeom.GetStageUpAxis(stage)).lower()


def start_time(stage: Any) -> Any:
    """The time code at which the scene is read: the stage's start, else the earliest sample of each attribute."""
    from pxr import Usd

    return Usd.TimeCode(stage.GetStartTimeCode()) if stage.HasAuthoredTimeCodeRange() else Usd.TimeCode.EarliestTime()


def frame_rate(stage: Any) -> float | None:
    """The authored timeCodesPerSecond, or None."""
    return float(stage.GetTimeCodesPerSecond()) if stage.HasAuthoredMetadata("timeCodesPerSecond") else None


@contextlib.contextmanager
def warnings_of_usd(report: SceneReport | None = None, path: str = "") -> Iterator[None]:
    """Keeps what USD would print on stderr, and puts it into `report` instead, one finding per text."""
    from pxr import UsdUtils

    delegate = UsdUtils.CoalescingDiagnosticDelegate()
    try:
        yield
    finally:
        for item in delegate.TakeUncoalescedDiagnostics():
            if report is not None and "MaterialBindingAPI is not applied" not in item.commentary:
                _report_diagnostic(report, path, item.commentary.strip().splitlines()[0])


def _report_diagnostic(report: SceneReport, path: str, text: str) -> None:
    """One finding of USD, at the prim that its text names."""
    found = re.search(r"[, ]*(?:at |on )?\(?prim\)? (/[^\s,]*[^\s,.])\.?", text)
    if found:
        report.add(f"note of USD: {text.replace(found.group(0), '')}", found.group(1), "see the text")
    else:
        report.add(f"note of USD: {text}", path, "see the text")


def report_composition(stage: Any, path: str, report: SceneReport) -> None:
    """Reports references and payloads that could not be resolved: their content is missing from the scene."""
    for error in stage.GetCompositionErrors():
        report.add("composition error", path, " ".join(str(error).split())[:200])
