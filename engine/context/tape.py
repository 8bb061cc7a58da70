"""`Tape`: records launches and copies, and runs them backwards to get gradients.

    x = engine.array([1.0, 2.0], dtype=float, requires_grad=True)
    with engine.Tape() as tape:
        engine.launch(energy, dim=2, inputs=[x], outputs=[loss])
    tape.backward(loss=loss)
    x.grad

Gradients flow through every array that a recorded launch writes from an array with `requires_grad`, also when the array
between them was made without it: the tape then keeps its gradient itself. What a recorded launch will read again must
not change until the tape is reset: changes are noticed (`gradients.note_write`) and `backward` raises.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from engine.compiler.adjoint_activity import ArrayKey
from engine.compiler.values import StructValue
from engine.context import dtypes, gradients, recording
from engine.context.array import array
from engine.context.array_indexed import indexedarray
from engine.context.backward import Plan, arrays_of, stored_arrays, with_arrays
from engine.context.memory import Block
from engine.context.tape_diagram import tape_diagram
from engine.errors import LaunchError, TapeError

_living: weakref.WeakSet[Tape] = weakref.WeakSet()
_recording: list[Tape] = []  # the innermost last
_running = 0  # tapes that run backwards now
_time = 0  # counts writes while any tape lives


@dataclass(eq=False)
class Recorded:
    """One entry of a tape: what undoes it, and the arrays that it has to do with."""

    name: str
    undo: Callable[[Tape], None]
    arrays: list[array]
    written: list[array] = field(default_factory=list)
    plan: Plan | None = None
    again: dict[ArrayKey, array] = field(default_factory=dict)  # arrays that the way back reads again
    time: int = 0


class Gradients(Mapping[Any, Any]):
    """Gradients by array, or by struct (a struct of gradients), for what a tape has recorded."""

    def __init__(self, tape: Tape):
        self._tape = tape

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, array):
            found = key.grad
            if found is None:
                found = self._tape.hidden_gradient(key)
            if found is None:
                raise KeyError(key)
            return found
        if isinstance(key, StructValue):
            kind = type(key).ir_type
            return with_arrays(key, kind, {path: a.grad for path, a in arrays_of(key, kind)})
        raise KeyError(key)

    def __contains__(self, key: Any) -> bool:
        try:
            self[key]
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[Any]:
        return iter([a for a in self._tape.arrays() if a.grad is not None])

    def __len__(self) -> int:
        return sum(a.grad is not None for a in self._tape.arrays())


class Tape:
    """Records what happens in its `with` block; `backward` may be called several times, gradients add up."""

    def __init__(self, strict: bool = False) -> None:
        """strict: a kernel whose backward pass is switched off is a ValueError; else it is run and not recorded."""
        self.strict = strict
        self.entries: list[Recorded] = []
        self.gradients = Gradients(self)
        self.scopes: list[tuple[int, str | None, Any]] = []  # (entries before it, name or None for an end, metadata)
        self.loss: array | None = None
        self._carriers: dict[int, Block] = {}  # blocks that depend on an array with requires_grad
        self._hidden: dict[int, tuple[Block, int]] = {}  # gradients of those that have none of their own
        self._seeds: list[tuple[array, array]] = []

    @property
    def launches(self) -> list[Recorded]:
        """What was recorded, in order."""
        return self.entries

    def __enter__(self) -> Tape:
        recording.refuse("Tape", "a tape cannot record while a graph is captured")
        if _running:
            raise TapeError("a tape is running backwards: second derivatives are not supported")
        if _recording:
            raise TapeError("a tape is recording already: it would miss what this one records")
        _recording.append(self)
        _living.add(self)
        gradients.watcher = sys.modules[__name__]
        return self

    def __exit__(self, *error: Any) -> None:
        _recording.remove(self)
        _retire()

    # recording

    def carries(self, a: array) -> bool:
        """Whether gradients flow into `a`."""
        return a.requires_grad or id(a.block) in self._carriers

    def carry(self, a: array) -> None:
        self._carriers.setdefault(id(a.block), a.block)

    def record_launch(self, kernel: Any, dim: Any, args: Sequence[Any], device: Any, block_dim: int) -> bool:
        """Runs and records a launch; False when no gradient passes through it, and nothing was done."""
        plan = Plan(kernel, dim, args, device, block_dim)
        floats = {k for k in plan.prints.floats if k in plan.arrays}
        active = {k for k in floats if self.carries(plan.arrays[k])}
        if plan.prints.indirect:
            self._refuse_stored(plan)
        if not active:
            return False
        if active & plan.prints.reads:
            active |= floats & plan.prints.writes
        for key in active & plan.prints.writes:
            self.carry(plan.arrays[key])
        if backward_is_off(kernel):
            if self.strict:
                raise ValueError("Kernel must have backward pass enabled to compute Jacobians")
            return False
        made = plan.differentiate(frozenset(active))
        plan.forward()
        for a in plan.written:
            _wrote(a)
        entry = Recorded(
            kernel.name, lambda tape: tape._undo_launch(entry), list(plan.arrays.values()), plan.written, plan
        )
        entry.again = {k: plan.arrays[k] for k in made.reads if k in plan.arrays}
        entry.time = _time
        for a in entry.again.values():
            gradients.shadow(a).tapes.add(self)
        self.entries.append(entry)
        return True

    def _refuse_stored(self, plan: Plan) -> None:
        """Gradients do not come out of arrays whose addresses are stored in other arrays."""
        for key, a in plan.arrays.items():
            for inner in stored_arrays(a.block.kept):
                if self.carries(inner):
                    raise LaunchError(plan.kernel.name, plan.name_of(key), "arrays without gradients in its elements",
                                      f"{inner!r} with one", "pass that array as an argument")  # fmt: skip

    def record_func(self, backward: Callable[[], Any], arrays: Sequence[array]) -> None:
        """Records a host function that propagates the gradients of `arrays`; `backward()` is called in its turn."""
        for a in arrays:
            self.carry(a)
        self.entries.append(Recorded(getattr(backward, "__name__", "func"), lambda tape: backward(), list(arrays)))

    def record_copy(self, dest: array, src: array, part: Any = ...) -> None:
        """A copy of arrays (`part`: into these elements): its gradient goes back to where the values came from."""
        if not self.carries(src) and not self.carries(dest):
            return
        if self.carries(src):
            self.carry(dest)
        self.entries.append(Recorded("copy", lambda tape: tape._undo_copy(dest, src, part), [dest, src], [dest]))

    def record_overwrite(self, a: array, part: Any = ...) -> None:
        """Values from elsewhere: what was in the array (or in `part` of it) before has no influence any more."""
        if self.carries(a):
            self.entries.append(Recorded("overwrite", lambda tape: tape._consume(a, part), [a], [a]))

    def record_scope_begin(self, name: str, metadata: Any = None) -> None:
        """Opens a named group of entries, which `visualize` draws as a box."""
        self.scopes.append((len(self.entries), name, {} if metadata is None else metadata))

    def record_scope_end(self) -> None:
        """Closes the group; one without entries is dropped. Raises TapeError when none is open."""
        ended = sum(name is None for _, name, _ in self.scopes)
        if len(self.scopes) - ended <= ended:
            raise TapeError("ended tape scope, but scope not present")
        if self.scopes[-1][1] is not None and self.scopes[-1][0] == len(self.entries):
            self.scopes.pop()
        else:
            self.scopes.append((len(self.entries), None, None))

    def visualize(self, filename: str | None = None, simplify_graph: bool = True, **options: Any) -> str:
        """The recorded launches and their arrays as a GraphViz diagram, written to `filename` where that is given.

        simplify_graph: equal launches that follow one another are one node.
        """
        text = tape_diagram(self.entries, self.scopes, simplify_graph)
        if filename is not None:
            Path(filename).write_text(text)
        return text

    # the way back

    def backward(self, loss: array | None = None, grads: Mapping[array, array] | None = None) -> None:
        """Adds to `grad` of every array what the recorded operations make of the gradients of their results.

        loss: an array of one element, whose gradient is taken as 1. grads: gradients of results by array. Without both,
        the gradients that the arrays have now are taken. Raises LaunchError when an array that is needed again was
        overwritten after it was recorded, TapeError for a loss that nothing recorded depends on.
        """
        recording.refuse("Tape.backward", "backward passes are not captured")
        if any(tape is not self for tape in _recording):
            raise TapeError("another tape is recording: second derivatives are not supported")
        for entry in self.entries:
            self._check(entry)
        with _running_back():
            for block, _ in self._hidden.values():
                np.frombuffer(_bytes(block), np.uint8)[...] = 0
            self._seed(loss, grads)
            self._undo_all()

    def _undo_all(self) -> None:
        """Every entry, the last first. Gradients to be retained are put back to what they were before being used up."""
        kept: dict[int, tuple[array, np.ndarray]] = {}
        for entry in reversed(self.entries):
            for a in entry.written:
                if a.retain_grad and id(a.block) not in kept:
                    kept[id(a.block)] = a, self._gradient(a).numpy().copy()
            entry.undo(self)
        for a, values in kept.values():
            self._gradient(a).assign(values)

    def _check(self, entry: Recorded) -> None:
        for key, a in entry.again.items():
            if gradients.written_since(a, entry.time):
                assert entry.plan is not None
                raise LaunchError(entry.name, entry.plan.name_of(key), "the values that it had when it was recorded",
                                  "an array that was overwritten afterwards", "its gradient would be wrong: "
                                  "write to another array, or record on a new tape")  # fmt: skip

    def _seed(self, loss: array | None, grads: Mapping[array, array] | None) -> None:
        if loss is not None:
            if loss.size != 1:
                raise TapeError(f"Can only return gradients for scalar loss functions; the loss has shape {loss.shape}")
            if not self.carries(loss):
                raise TapeError("Scalar loss arrays should have requires_grad=True set before calling Tape.backward(), "
                                   "and be computed from one that has")  # fmt: skip
            self.loss = loss
            self._gradient(loss).fill_(1)
        for a, g in (grads or {}).items():
            if not isinstance(a, array) or not isinstance(g, array | indexedarray):
                raise TypeError("grads maps arrays to arrays")
            if not self.carries(a):
                a.requires_grad = True
            self._gradient(a).assign(g)

    def _gradient(self, a: array) -> array:
        """Where the gradient of `a` lies."""
        found = gradients.gradient(a)
        if found is not None:
            return found
        if a.requires_grad:
            return gradients.ensure(a)
        hidden = self.hidden_gradient(a)
        if hidden is None:
            block = a.device.alloc(a.block.nbytes, True)
            self._hidden[id(a.block)] = block, block.ptr - a.block.ptr
            hidden = self.hidden_gradient(a)
            assert hidden is not None
        return hidden

    def hidden_gradient(self, a: array) -> array | None:
        """The gradient that the tape keeps for an array without `requires_grad`, or None."""
        found = self._hidden.get(id(a.block))
        if found is None:
            return None
        block, shift = found
        return array.over(a.dtype, a.layout, a.shape, a.strides, a.ptr + shift, a.plane_stride, block, a.device)

    def _undo_launch(self, entry: Recorded) -> None:
        plan = entry.plan
        assert plan is not None
        plan.backward(lambda key: self._gradient(plan.arrays[key]))

    def _undo_copy(self, dest: array, src: array, part: Any) -> None:
        g = self._gradient(dest).numpy()[part].copy()
        self._consume(dest, part)
        if self.carries(src):
            into = self._gradient(src)
            if g.dtype.names is None:
                into.store(into.numpy() + g)
            else:
                sums = into.numpy()
                _add_records(sums, g)
                into.store(sums)

    def _consume(self, a: array, part: Any) -> None:
        g = self._gradient(a)
        g.store(np.zeros((), dtypes.numpy_element(g.element, g.layout)[0]), part)

    # afterwards

    def arrays(self) -> list[array]:
        """All arrays that were recorded, each once."""
        return list({id(a): a for entry in self.entries for a in entry.arrays}.values())

    def zero(self) -> None:
        """Sets the gradients of all recorded arrays to zero."""
        for a in self.arrays():
            found = gradients.gradient(a)
            if found is not None:
                found.zero_()

    def reset(self) -> None:
        """Forgets what was recorded, and sets the gradients to zero."""
        self.zero()
        for entry in self.entries:
            for a in entry.again.values():
                gradients.shadow(a).tapes.discard(self)
            if entry.plan is not None:
                entry.plan.release()
        self.entries.clear()
        self.scopes.clear()
        self._carriers.clear()
        self._hidden.clear()
        self.loss = None
        if self not in _recording:
            _living.discard(self)
            _retire()


@contextmanager
def _running_back() -> Iterator[None]:
    """Nothing is recorded meanwhile; a tape that starts to record is refused."""
    global _running
    paused = _recording[:]
    _recording.clear()
    _running += 1
    try:
        yield
    finally:
        _running -= 1
        _recording.extend(paused)


def _bytes(block: Block) -> Any:
    return (ctypes.c_uint8 * block.nbytes).from_address(block.ptr)


def _add_records(into: np.ndarray, g: np.ndarray) -> None:
    """Adds the float fields of structs."""
    for name in g.dtype.names or ():
        part = g[name]
        if part.dtype.names is not None:
            _add_records(into[name], part)
        elif part.dtype.kind == "f":
            into[name] += part


def backward_is_off(kernel: Any) -> bool:
    """Whether the user switched the backward pass of a kernel off, by itself or for its module."""
    options = {**kernel.module.options, **kernel.options}
    return not options.get("enable_backward", True)


# what the rest of the context tells the tapes (`gradients.watcher`)


def _retire() -> None:
    """Without a tape that lives, nobody needs to hear of writes."""
    if not _recording and not any(tape.entries for tape in _living):
        gradients.watcher = None


def _wrote(a: array) -> None:
    global _time
    _time += 1
    if gradients.is_watched(a):
        gradients.note_write(a, _time)


def observe(kernel: Any, dim: Any, args: list[Any], device: Any, record: bool, block_dim: int) -> bool:
    """A launch comes: a recording tape takes it over (True), or it goes its way and its writes are noted."""
    if _recording and record:
        if _running:
            raise TapeError("a tape is running backwards: second derivatives are not supported")
        if _recording[-1].record_launch(kernel, dim, args, device, block_dim):
            return True
    if not any(tape.entries for tape in _living):
        _retire()
    elif any(gradients.is_watched(a) for arg in args for _, a in arrays_of(arg, getattr(arg, "ir_type", None))):
        for a in Plan(kernel, dim, args, device, block_dim).written:
            _wrote(a)
    return False


def is_recording() -> bool:
    """Whether a tape records what happens now."""
    return bool(_recording) and not _running


def overwritten(a: array) -> None:
    """The host writes values into an array."""
    _wrote(a)
    if _recording and not _running:
        _recording[-1].record_overwrite(a)


def assigned(a: array, value: Any, part: Any = ...) -> None:
    """The host copies an array, or writes values, into an array, or into the elements that `part` selects of it."""
    _wrote(a)
    if not _recording or _running:
        return
    whole = value.shape == a.shape if isinstance(value, array) else False
    if isinstance(value, indexedarray) and _recording[-1].carries(value.data):
        raise TapeError("a copy out of an indexed array has no gradient yet: copy with a kernel")
    if whole or (isinstance(value, array) and part is not ...):
        _recording[-1].record_copy(a, value, part)
    elif isinstance(value, array) and _recording[-1].carries(value):
        raise TapeError(f"a copy of shape {value.shape} into {a.shape} has no gradient: copy equal shapes")
    else:
        _recording[-1].record_overwrite(a, part)
