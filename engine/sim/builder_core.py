"""The lists that the parts of ModelBuilder share, and how they name things in errors."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from engine.errors import SceneError
from engine.geom.hull import Hull, NoHull
from engine.geom.pose import Floats, as_axis, as_vector
from engine.sim.builder_records import BodyRecord, JointRecord, ShapeOptions, ShapeRecord
from engine.state.schema import WORLD_BODY


class BuilderCore:
    """Records, labels, errors, warnings. See ModelBuilder."""

    def __init__(self, up_axis: str | int = "z", gravity: float | Any = -9.81, source: str = ""):
        """See ModelBuilder."""
        self.source = str(source)
        with self._errors_of("model"):
            self.up_vector: Floats = as_axis(up_axis)
            if not isinstance(up_axis, (int, str)) or "-" in str(up_axis):
                raise ValueError(f'up_axis must be "x", "y", "z", 0, 1 or 2, got {up_axis!r}')
            self.up_axis = "xyz"[int(np.argmax(self.up_vector))]
            along_up = np.ndim(gravity) == 0
            self.gravity: Floats = self.up_vector * as_vector([gravity], 1) if along_up else as_vector(gravity)
        self.default_shape = ShapeOptions()
        self.bodies: list[BodyRecord] = []
        self.shapes: list[ShapeRecord] = []
        self.joints: list[JointRecord] = []
        self.fluids: list[Any] = []  # builder_particles.FluidRecord
        self.particles: list[tuple[Floats, Floats, int, bool]] = []  # positions, velocities, fluid, fill
        self.particle_radius = 0.025  # m
        self.emitters: list[Any] = []  # builder_emitters.EmitterRecord
        self.outflows: list[tuple[Floats, Floats]] = []  # lower, upper corner
        self.domain: Any = None  # builder_particles.Domain
        self.filter_pairs: set[tuple[int, int]] = set()
        self.world_count = 0  # worlds that exist so far
        self.own_world = -1  # the world of bodies that are added one by one; −1 until there is one
        self._warned: set[str] = set()
        self._options: dict[Any, ShapeOptions] = {}
        self._hulls: dict[tuple[bytes, int], Hull | NoHull] = {}

    @property
    def body_count(self) -> int:
        return len(self.bodies)

    @property
    def shape_count(self) -> int:
        return len(self.shapes)

    @property
    def joint_count(self) -> int:
        return len(self.joints)

    def body_name(self, body: int) -> str:
        """Label of a body; "world" for −1."""
        return "world" if body == WORLD_BODY else self.bodies[body].label

    @contextmanager
    def _errors_of(self, owner: str, what: str = "") -> Iterator[None]:
        """A ValueError or TypeError inside becomes a SceneError that names `owner` (a label) and `what`."""
        try:
            yield
        except SceneError:
            raise
        except (ValueError, TypeError) as error:
            reason = str(error).replace("ShapeOptions.__init__() ", "").replace("JointDof.__init__() ", "")
            raise SceneError(self.source, owner, f"{what}: {reason}" if what else reason) from None

    def _check_body(self, body: Any, role: str, allow_world: bool = True) -> int:
        """`body` as an index of an existing body or the world. Raises ValueError."""
        if isinstance(body, bool) or not isinstance(body, (int, np.integer)):
            raise ValueError(f"{role} must be a body index, got {body!r}")
        lowest = WORLD_BODY if allow_world else 0
        if not lowest <= body < len(self.bodies):
            raise ValueError(f"{role} {body} does not exist ({len(self.bodies)} bodies)")
        return int(body)

    def _world_of(self, body: int) -> int:
        """World of what is attached to a body; things of the outer world are in all worlds (−1)."""
        return -1 if body == WORLD_BODY else self.bodies[body].world

    def _shape_options(self, options: dict[str, Any]) -> ShapeOptions:
        """The default options with some replaced; equal ones are one object. Raises ValueError, TypeError."""
        if not options:
            return self.default_shape
        key = (self.default_shape, *options.items())
        made = self._options.get(key)
        if made is None:
            made = self._options[key] = replace(self.default_shape, **options)
        return made

    def _warn_once(self, kind: str, text: str) -> None:
        """One UserWarning per kind and builder: a scene of a thousand meshes says it once."""
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(text, UserWarning, stacklevel=4)
