"""Emission of particles while a scene runs: layers that are due, into room that grows by doubling."""

from __future__ import annotations

import math

import numpy as np

from engine.compiler import lang as k
from engine.context import launch
from engine.state.model import Model
from engine.state.tables import State


@k.requires(lambda tid, m, s, emitter, first: 0 <= emitter and emitter < m.emitter_velocity.shape[0] and 0 <= first
    and first <= s.particle_q.shape[0] and tid < s.particle_q.shape[0] - first
    and 0 <= m.emitter_point_start[emitter] and m.emitter_point_start[emitter] <= m.emitter_point.shape[0]
    and tid < m.emitter_point.shape[0] - m.emitter_point_start[emitter])  # fmt: skip
@k.kernel
def emit_layer(m: Model, s: State, emitter: int, first: int, number: int, travelled: float):
    """Particles first, first + 1, … of the state, `number` of them from now on; they have moved for a while already."""
    i = k.tid()
    velocity = m.emitter_velocity[emitter]
    s.particle_q[first + i] = m.emitter_point[m.emitter_point_start[emitter] + i] + velocity * travelled
    s.particle_qd[first + i] = velocity
    s.particle_fluid[first + i] = m.emitter_fluid[emitter]
    s.particle_id[first + i] = number + i
    s.particle_density[first + i] = 1.0


class Emitters:
    """The emitters of a model. What they have emitted is in State.emitter_emitted."""

    def __init__(self, model: Model, state: State, diameter: float):
        self._model, self._state = model, state
        speed = np.linalg.norm(model.emitter_velocity.numpy().astype(float), axis=1)
        self._interval = diameter / speed  # s from layer to layer
        self._start, self._stop = (x.numpy().astype(float) for x in (model.emitter_start, model.emitter_stop))
        self._most, self._size = (x.numpy().astype(int) for x in (model.emitter_most, model.emitter_point_count))
        self.recall()

    def recall(self) -> None:
        """Reads again what has been emitted: a state may have been restored or reset."""
        self._emitted = self._state.emitter_emitted.numpy().astype(int)

    def emit(self, time: float) -> int:
        """Adds all layers that are due at `time` (s) to the state; how many particles that were."""
        state, added = self._state, 0
        for e, size in enumerate(self._size):
            seconds = min(time, self._stop[e]) - self._start[e]
            due = 0 if seconds < 0.0 else (math.floor(seconds / self._interval[e] + 1e-6) + 1) * int(size)
            while self._emitted[e] < min(due, self._most[e]):
                count = int(min(size, self._most[e] - self._emitted[e]))
                layer_time = self._start[e] + self._emitted[e] // size * self._interval[e]
                number = self._model.count["nparticle"] + int(self._emitted.sum())
                first = state.count["nparticle"]
                if first + count > state.room.get("nparticle", 0):
                    state.reserve({"nparticle": 2 * (first + count)})
                state.resize({"nparticle": first + count})
                travelled = max(time - layer_time, 0.0)
                inputs = [self._model, state, e, first, number, travelled]
                launch(emit_layer, count, inputs=inputs, device=self._model.device)
                self._emitted[e] += count
                added += count
        if added:
            state.emitter_emitted.store(self._emitted)
        return added
