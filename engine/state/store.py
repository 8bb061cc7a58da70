"""Tables in a file and back: a `.npz` with format number, schema hash and one array per field, matched by name."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from engine.context.table import Table
from engine.errors import Error
from engine.replace_file import replacing
from engine.state.model import Model
from engine.state.schema import FORMAT, schema_hash
from engine.state.tables import Control, State

_HEADER = "weft"  # key of the JSON text; all others are Table.field


@dataclass
class Saved:
    """A file's contents. arrays: "Table.field" → NumPy array. info: what the caller of `save` added."""

    path: str
    schema: str
    counts: dict[str, dict[str, int]]
    labels: dict[str, Any]
    info: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(repr=False)

    def model(self, device: Any = "cpu") -> Model:
        """The saved Model. Raises Error if the file holds none."""
        values = self._fields_of("Model")
        known = set(Model.ir_type.symbols)
        counts = {s: n for s, n in self.counts["Model"].items() if s in known}
        return Model(counts, {n: v for n, v in values.items() if Model.ir_type.field(n)}, device, **self.labels)

    def restore(self, name: str, table: Table) -> list[str]:
        """Fills `table` with the saved one called `name`, resized to fit; field arrays keep their identity.

        Fields that the file lacks keep what they hold. Returns the names of fields found on one side only (none if the
        schemas are the same). Raises Error for a field of another element type.
        """
        values = self._fields_of(name)
        known = set(table.ir_type.symbols)
        table.resize({s: n for s, n in self.counts[name].items() if s in known})
        for key, target in table.fields():
            if key not in values:
                continue
            stored, wanted = values[key], target.numpy()
            if stored.dtype != wanted.dtype or stored.shape != wanted.shape:
                raise Error(
                    f"{self.path}: {name}.{key} is {stored.dtype}{list(stored.shape)}, expected "
                    f"{wanted.dtype}{list(wanted.shape)}"
                )
            target.store(stored)
        return sorted(set(values) ^ {key for key, _ in table.fields()})

    def _fields_of(self, name: str) -> dict[str, np.ndarray]:
        if name not in self.counts:
            raise Error(f"{self.path}: holds no {name}, only {', '.join(self.counts) or 'nothing'}")
        prefix = name + "."
        return {key.removeprefix(prefix): a for key, a in self.arrays.items() if key.startswith(prefix)}


def save(
    path: str | PathLike[str], model: Model, tables: Mapping[str, Table], info: Mapping[str, Any] | None = None
) -> None:
    """Model and tables (by name) to one file, whole or not at all. `info`: JSON values of the caller's own.

    Raises Error if the file cannot be written, TypeError if `info` is no JSON.
    """
    every: dict[str, Table] = {"Model": model, **tables}
    labels = {
        "body_label": model.body_label,
        "shape_label": model.shape_label,
        "joint_label": model.joint_label,
        "fluid_label": model.fluid_label,
        "up_axis": model.up_axis,
        "nworld": model.nworld,
    }
    header = {
        "format": FORMAT,
        "schema": schema_hash(),
        "counts": {name: table.count for name, table in every.items()},
        "labels": labels,
        "info": dict(info or {}),
    }
    arrays = {f"{name}.{key}": a.numpy() for name, table in every.items() for key, a in table.fields()}
    text = json.dumps(header)
    with replacing(path) as beside, open(beside, "wb") as file:
        np.savez(file, allow_pickle=False, **{_HEADER: np.array(text)}, **arrays)


def load(path: str | PathLike[str]) -> Saved:
    """What `save` wrote. Raises Error naming the file if it cannot be read, is no such file, or has a newer format."""
    try:
        with np.load(Path(path), allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
        header = json.loads(str(arrays.pop(_HEADER)))
    except OSError as error:
        raise Error(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, KeyError, EOFError, AttributeError, zipfile.BadZipFile):
        raise Error(f"{path}: is not a saved simulation, or is damaged") from None
    if header["format"] > FORMAT:
        raise Error(f"{path}: has format {header['format']}, this version reads formats up to {FORMAT}")
    return Saved(str(path), header["schema"], header["counts"], header["labels"], header["info"], arrays)


def restored(saved: Saved, device: Any = "cpu") -> tuple[Model, State, Control]:
    """The three tables that every saved simulation has; others by `saved.restore(name, table)`."""
    model = saved.model(device)
    state, control = model.state(), model.control()
    saved.restore("State", state)
    saved.restore("Control", control)
    return model, state, control
