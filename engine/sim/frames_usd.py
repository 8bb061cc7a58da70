"""USD frames out: a stage with one time sample of every moving body per frame, on top of the scene it came from.

The written stage has the source as a sublayer (by relative path), so that materials, lights and cameras survive; its
own layer holds xform samples on the body prims only. It is written beside its place and renamed at the end. Without a
source stage, the bodies and shapes become gprims (frames_usd_shapes).
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from engine.errors import Error
from engine.sim.frames_usd_points import PointClouds
from engine.sim.frames_usd_shapes import author_model
from engine.sim.frames_usd_surface import FluidSurfaces
from engine.sim.frames_usd_targets import Placement, Target, targets_in_stage

SUFFIXES = (".usd", ".usda", ".usdc")
SAVE_EVERY = 256  # frames between flushes of a binary file; text files can only be written whole
COPIED_METADATA = (
    "upAxis", "metersPerUnit", "kilogramsPerUnit", "defaultPrim", "customLayerData", "renderSettingsPrimPath",
    "colorConfiguration", "colorManagementSystem",
)  # fmt: skip
OP_ORDER = {
    "trs": ("xformOp:translate:sim", "xformOp:orient:sim", "xformOp:scale:sim"),
    "matrix": ("xformOp:transform:sim",),
}


class FrameWriter:
    """Writes frames of a simulation to a USD file; a context manager.

        with FrameWriter("out.usdc", model, fps=60, source="scene.usda") as out:
            out.write(state)  # the start pose, then once per frame

    Leaving the block, also by Ctrl-C, completes the file; any other exception removes it. N calls of `write` make N
    samples at time codes start, start + 1, … with timeCodesPerSecond = fps, so that frame i is at t = i / fps.

    path: .usd, .usda or .usdc. model: labels of its bodies are prim paths of the source. source: the scene file, None
    for a model built in Python. flatten: one self-contained file instead of a reference to the source.
    surface: fluids as meshes `<prim>_surface` beside their hidden points.
    Raises Error if the file cannot be written, before anything is simulated.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        model: Any,
        fps: float,
        source: str | None = None,
        flatten: bool = False,
        surface: bool = False,
    ) -> None:
        self.path = Path(path)
        self.model, self.fps, self.flatten = model, float(fps), flatten
        self.frame = 0
        self._beside = _place_beside(self.path, source)
        self._layer = _new_layer(self._beside, self.path)
        self._stage = self._open(source)
        self._targets = self._make_targets(source)
        self._placement = Placement(self._targets)
        self._author_ops()
        try:
            self._clouds = PointClouds(self._stage, self._layer, model, source, self._start)
            self._surfaces = self._make_surfaces() if surface else None
        except Error:
            self.discard()
            raise

    # -- writing ---------------------------------------------------------------------------------------------------

    def write(self, state: Any) -> None:
        """Adds the next frame: state.body_q (nbody, 7), m, xyzw, and the particles."""
        from pxr import Gf, Sdf

        poses = np.array(state.body_q.numpy(), float)
        origins, turns = (values.tolist() for values in self._placement.locate(poses))
        time, sample = self._start + self.frame, self._layer.SetTimeSample
        with Sdf.ChangeBlock():
            for i, paths in enumerate(self._paths):
                if len(paths) == 1:
                    full = np.eye(4)
                    full[:3, :3], full[3, :3] = self._placement.matrix(i, poses).T, origins[i]
                    sample(paths[0], time, Gf.Matrix4d(full.tolist()))
                else:
                    x, y, z, w = turns[i]
                    sample(paths[0], time, Gf.Vec3d(origins[i]))
                    sample(paths[1], time, Gf.Quatf(w, x, y, z))
        self._clouds.write(state, time)
        if self._surfaces is not None:
            self._surfaces.write(state, time)
        self.frame += 1
        if self.frame % SAVE_EVERY == 0 and self._beside.suffix != ".usda":
            self._set_end()
            self._layer.Save()

    def _make_surfaces(self) -> FluidSurfaces:
        from pxr import UsdGeom

        unit = UsdGeom.GetStageMetersPerUnit(self._stage)
        return FluidSurfaces(self._layer, self._clouds.clouds, self._clouds.radius, unit)

    def close(self) -> None:
        """Completes the file and moves it to its place. Raises Error if that fails."""
        try:
            self._set_end()
            if self.flatten:
                flat = self._stage.Flatten(addSourceFileComment=False)
                self._release()
                flat.Export(str(self._beside))
                del flat
            else:
                self._layer.Save()
                self._release()
            os.replace(self._beside, self.path)
        except Exception as error:
            self.discard()
            raise Error(f"{self.path}: cannot be written: {_one_line(error)}") from None

    def discard(self) -> None:
        """Removes what was written so far; the place of the file stays as it was."""
        self._release()
        self._beside.unlink(missing_ok=True)

    def __enter__(self) -> FrameWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or issubclass(kind, KeyboardInterrupt):
            self.close()
        else:
            self.discard()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _open(self, source: str | None) -> Any:
        """The stage of the new layer, with the source below it and the source's metadata."""
        from pxr import Sdf, Usd, UsdGeom, UsdPhysics

        self._start = 0.0
        if source is not None:
            folder = self.path.absolute().parent
            below = Path(os.path.relpath(Path(source).absolute(), folder)).as_posix()
            self._layer.subLayerPaths.append(below if below.startswith("../") else f"./{below}")
        stage = Usd.Stage.Open(self._layer)
        if source is None:
            UsdGeom.SetStageUpAxis(stage, str(getattr(self.model, "up_axis", "z")).upper())
            UsdGeom.SetStageMetersPerUnit(stage, 1.0)
            UsdPhysics.SetStageKilogramsPerUnit(stage, 1.0)
        else:
            self._copy_metadata(stage, Sdf.Layer.FindOrOpen(source))
        stage.SetTimeCodesPerSecond(self.fps)
        stage.SetFramesPerSecond(self.fps)
        stage.SetStartTimeCode(self._start)
        return stage

    def _copy_metadata(self, stage: Any, below: Any) -> None:
        """Stage metadata is read from the root layer alone: what the source says is said again."""
        for key in COPIED_METADATA:
            if below.pseudoRoot.HasInfo(key):
                self._layer.pseudoRoot.SetInfo(key, below.pseudoRoot.GetInfo(key))
        if below.HasStartTimeCode():  # the same moment in the new rate; USD rescales the sublayer's samples alike
            rate = below.timeCodesPerSecond if below.HasTimeCodesPerSecond() else 24.0
            self._start = below.startTimeCode * self.fps / rate

    def _make_targets(self, source: str | None) -> list[Target]:
        """Where each body's samples go."""
        labels = [str(label) for label in self.model.body_label]
        if source is None:
            labels = author_model(self._stage, self.model)
        try:
            return targets_in_stage(self._stage, labels, self._start)
        except Error:
            self.discard()
            raise

    def _author_ops(self) -> None:
        """xformOpOrder and the ops of every target; the names have a suffix of their own, so that no type can clash.

        Leaves in `_paths` what is sampled: the matrix, or translation and rotation.
        """
        from pxr import Gf, Sdf, Vt

        self._paths: list[list[Any]] = []
        for target in self._targets:
            prim = Sdf.CreatePrimInLayer(self._layer, target.path)
            names = OP_ORDER["trs" if target.scale is not None else "matrix"]
            order = Sdf.AttributeSpec(prim, "xformOpOrder", Sdf.ValueTypeNames.TokenArray, Sdf.VariabilityUniform)
            order.default = Vt.TokenArray((*(["!resetXformStack!"] if target.resets else []), *names))
            if target.scale is None:
                self._paths.append([Sdf.AttributeSpec(prim, names[0], Sdf.ValueTypeNames.Matrix4d).path])
                continue
            kinds = (Sdf.ValueTypeNames.Double3, Sdf.ValueTypeNames.Quatf)
            self._paths.append([Sdf.AttributeSpec(prim, name, kind).path for name, kind in zip(names, kinds)])
            Sdf.AttributeSpec(prim, names[2], Sdf.ValueTypeNames.Float3).default = Gf.Vec3f(*map(float, target.scale))

    def _set_end(self) -> None:
        self._layer.endTimeCode = self._start + max(self.frame - 1, 0)

    def _release(self) -> None:
        """Lets go of USD's objects, so that the file is nobody's."""
        self._stage = self._layer = None


def check_output(path: str | os.PathLike[str], source: str | None = None) -> None:
    """Raises Error if frames cannot be written to `path`."""
    beside = _place_beside(Path(path), source)
    _touch(beside, Path(path))
    beside.unlink()


def _place_beside(path: Path, source: str | None) -> Path:
    """The temporary name, after checking that `path` can be an output file. Makes missing folders."""
    if path.suffix not in SUFFIXES:
        raise Error(f"{path}: frames are written as {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    if path.is_dir():
        raise Error(f"{path}: cannot be written: is a folder")
    if source is not None and path.exists() and os.path.samefile(path, source):
        raise Error(f"{path}: cannot be written: it is the scene that is being simulated")
    try:
        path.absolute().parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = "a part of the path is no folder" if isinstance(error, FileExistsError) else error.strerror
        raise Error(f"{path}: cannot be written: {reason}") from None
    return path.absolute().with_name(f".{path.stem}.{os.getpid()}-{threading.get_ident()}{path.suffix}")


def _touch(beside: Path, path: Path) -> None:
    try:
        beside.touch()
    except OSError as error:
        raise Error(f"{path}: cannot be written: {error.strerror}") from None


def _new_layer(beside: Path, path: Path) -> Any:
    """An empty layer at the temporary name."""
    from pxr import Sdf

    _touch(beside, path)
    layer = Sdf.Layer.CreateNew(str(beside))
    if layer is None:
        raise Error(f"{path}: cannot be written")
    return layer


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
