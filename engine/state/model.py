"""Model: the constant table of a scene with its labels, and the State, Control and Contacts that go with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.state.tables import Contacts, Control, ModelTable, State, assign_fields, initialise

__all__ = ["Contacts", "Control", "Model", "ModelTable", "State"]


class Model(ModelTable):
    """A finished scene: kernels take it as one argument, fields are arrays (`model.body_mass.numpy()`).

    Beside the fields (docs/state.md): `body_label`, `shape_label`, `joint_label`, `fluid_label` (tuples of str),
    `up_axis` ("x", "y", "z"), `nworld`, `device`, and each count symbol as an int (`model.nbody`). Setting an
    attribute raises AttributeError.
    """

    body_label: tuple[str, ...]
    shape_label: tuple[str, ...]
    joint_label: tuple[str, ...]
    fluid_label: tuple[str, ...]
    up_axis: str
    nworld: int

    def __init__(
        self,
        counts: Mapping[str, int],
        values: Mapping[str, Any],
        device: Any = "cpu",
        *,
        body_label: Sequence[str] = (),
        shape_label: Sequence[str] = (),
        joint_label: Sequence[str] = (),
        fluid_label: Sequence[str] = (),
        up_axis: str = "z",
        nworld: int = 1,
    ):
        """counts: length of each dimension symbol. values: array of each field; others get their initial value."""
        super().__init__({"one": 1, **counts}, device)
        initialise(self)
        assign_fields(self, values)
        self.body_label, self.shape_label, self.joint_label = tuple(body_label), tuple(shape_label), tuple(joint_label)
        self.fluid_label = tuple(fluid_label)
        self.up_axis, self.nworld = up_axis, nworld
        self.__dict__["_frozen"] = True

    def __setattr__(self, name: str, value: Any) -> None:
        if "_frozen" in self.__dict__:
            raise AttributeError(f"a Model is immutable: '{name}' cannot be set; build a new one with ModelBuilder")
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        counts = self.__dict__.get("count", {})
        if name in counts:
            return counts[name]
        raise AttributeError(f"Model has no field or attribute '{name}'")

    def resize(self, count: Any, keep: bool = True) -> None:
        raise AttributeError("a Model is immutable: it cannot be resized; build a new one with ModelBuilder")

    def state(self) -> State:
        """A new State at the start of the scene."""
        return _companion(State, self)

    def control(self) -> Control:
        """A new Control with the drive targets of the scene and no efforts."""
        return _companion(Control, self)

    def contacts(self, capacity: int | None = None) -> Contacts:
        """New, empty Contacts with room for `capacity` pairs (they grow when needed)."""
        pairs = max(64, 4 * self.count["nshape"]) if capacity is None else capacity
        return _companion(Contacts, self, {"npair": pairs, "npoint": 4 * pairs})


def _companion(kind: Any, model: Model, counts: Mapping[str, int] | None = None) -> Any:
    """A table of another type on the model's device, with the model's counts where it uses the same symbols."""
    shared = {symbol: n for symbol, n in model.count.items() if symbol in kind.ir_type.symbols}
    table = kind(shared | dict(counts or {}), model.device)
    initialise(table, model)
    return table
