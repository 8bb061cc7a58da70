"""The table types that the schema describes, their initial values, and what is done to all fields of one alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.compiler import types
from engine.compiler.values import names
from engine.context.table import Table, make_table
from engine.state.schema import TABLES, Field, fields_of

IDENTITY = {
    "transform": np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]),
    "quat": np.array([0.0, 0.0, 0.0, 1.0]),
    "mat33": np.eye(3),
}

DOCS = {
    "Model": "What the builder made of a scene: constant while it is simulated. Fields: docs/state.md.",
    "State": "What a step changes. Fields: docs/state.md.",
    "Control": "What a user or a policy sets between steps. Fields: docs/state.md.",
    "Contacts": "Contacts of the last step and their impulses, which start the next one. Fields: docs/state.md.",
}


def element(dtype: str) -> Any:
    """The scalar type or value class behind a dtype name of the schema."""
    return getattr(names, dtype, None) or getattr(types, dtype)


def table_type(name: str) -> Any:
    """A table class with the schema's fields of table `name`."""
    return make_table(name, [(f.name, element(f.dtype), f.dim) for f in fields_of(name)], DOCS[name], __name__)


ModelTable, State, Control, Contacts = (table_type(name) for name in TABLES)


def initialise(table: Table, model: Table | None = None) -> None:
    """Every field of a zeroed table to its initial value in the schema; "model" is copied from `model`."""
    for field in fields_of(type(table).ir_type.name):
        set_initial(table, field, model)


def set_initial(table: Table, field: Field, model: Table | None = None) -> None:
    """One field to its initial value."""
    target = getattr(table, field.name)
    if len(target) == 0:
        return
    if field.init == "model":
        assert model is not None, field.name
        target.store(getattr(model, field.name).numpy())
    elif field.init == "identity":
        target.store(IDENTITY[field.dtype])
    elif field.init == "index":
        target.store(np.arange(len(target), dtype=np.int32))
    elif field.init != 0:
        target.store(field.init)


@dataclass(frozen=True)
class Difference:
    """A field in which two tables differ: where first, by how much at most, how many elements."""

    field: str
    index: int
    first: Any
    second: Any
    largest: float
    count: int

    def __str__(self) -> str:
        return (
            f"{self.field}: {self.count} elements differ, first at {self.index}: {self.first} and {self.second}, "
            f"by at most {self.largest:g}"
        )


def compare(a: Table, b: Table, tolerance: float = 0.0) -> list[Difference]:
    """The fields in which two tables of one type differ by more than `tolerance`; NaN differs from numbers only.

    Fields of different lengths differ from the end of the shorter one on.
    """
    if a.ir_type != b.ir_type:
        raise TypeError(f"{a.ir_type!r} cannot be compared with {b.ir_type!r}")
    found = []
    for name, array in a.fields():
        x, y = array.numpy(), getattr(b, name).numpy()
        if len(x) != len(y):
            found.append(Difference(name, min(len(x), len(y)), len(x), len(y), np.inf, abs(len(x) - len(y))))
            continue
        if not len(x):
            continue
        x, y = x.reshape(len(x), -1), y.reshape(len(y), -1)
        with np.errstate(invalid="ignore"):
            gap = np.abs(x.astype(np.float64) - y.astype(np.float64))
        gap[np.isnan(gap)] = np.inf
        unequal = (x != y) & ~((x != x) & (y != y))  # two NaN are equal
        wrong = np.flatnonzero((unequal & ((gap > tolerance) | (tolerance == 0.0))).any(axis=1))
        if len(wrong):
            i = int(wrong[0])
            found.append(Difference(name, i, x[i].tolist(), y[i].tolist(), float(gap[wrong].max()), len(wrong)))
    return found


def assign_fields(table: Table, values: Mapping[str, Any]) -> None:
    """NumPy arrays into fields of the right lengths. Raises ValueError naming the field for a wrong shape."""
    for name, value in values.items():
        target = getattr(table, name)
        wanted, source = target.window().shape, np.asarray(value)
        if source.size != np.prod(wanted) or len(source) != wanted[0]:
            raise ValueError(f"{type(table).__name__}.{name}: shape {source.shape} does not fit {wanted}")
        target.store(source.reshape(wanted))
