"""Checks of gradients: Jacobians by the tape and by finite differences, and their comparison.

A function is a kernel (with `dim`, `inputs`, `outputs`) or a Python function of the inputs that launches kernels and
returns its output array, or several. A Jacobian is a (components of the output, components of the input) array; the
result maps (number of the input, number of the output) to it, counting all inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from engine.compiler import types
from engine.context import array, launch
from engine.context.tape import Tape, backward_is_off

Jacobians = dict[tuple[int, int], array]
Mask = Sequence[tuple[str | int, str | int]] | None


class _Problem:
    """A function with its inputs and outputs by number and name."""

    def __init__(self, function: Any, dim: Any, inputs: Sequence[Any], outputs: Sequence[Any] | None, device: Any,
                 mask: Mask):  # fmt: skip
        self.function, self.dim, self.inputs, self.device = function, dim, list(inputs), device
        self.is_kernel = hasattr(function, "params")
        self.fixed = None if outputs is None else list(outputs)
        if self.is_kernel and (dim is None or outputs is None):
            raise ValueError("the Jacobian of a kernel needs dim= and outputs=")
        self.input_names, self.output_names = self._names()
        self.mask = mask

    def _names(self) -> tuple[list[str], list[str]]:
        if self.is_kernel:
            names = [name for name, _ in self.function.params]
            return names[: len(self.inputs)], names[len(self.inputs) :]
        code = getattr(self.function, "__code__", None)
        names = list(code.co_varnames[: code.co_argcount]) if code else []
        names += [f"input_{n}" for n in range(len(names), len(self.inputs))]
        return names, []

    def run(self) -> list[array]:
        """Evaluates the function; its outputs."""
        if self.is_kernel:
            assert self.fixed is not None
            launch(self.function, self.dim, [*self.inputs, *self.fixed], device=self.device)
            return self.fixed
        result = self.function(*self.inputs)
        outputs = list(result) if isinstance(result, tuple | list) else [result]
        self.output_names = [f"output_{n}" for n in range(len(outputs))]
        return outputs

    def pairs(self, outputs: Sequence[array]) -> list[tuple[int, int]]:
        """(input, output) numbers that are wanted: float arrays, inputs with requires_grad."""
        found = [
            (i, o)
            for i, x in enumerate(self.inputs) if isinstance(x, array) and x.requires_grad and _is_float(x)
            for o, y in enumerate(outputs) if isinstance(y, array) and _is_float(y)
        ]  # fmt: skip
        if self.mask is None:
            return found
        wanted = {
            (_number(i, self.input_names, "input"), _number(o, self.output_names, "output")) for i, o in self.mask
        }
        return [pair for pair in found if pair in wanted]

    @contextmanager
    def restored(self, restore: bool) -> Iterator[None]:
        """The inputs have their values again afterwards, whatever happens."""
        arrays = [x for x in self.inputs if isinstance(x, array)] if restore else []
        values = [x.numpy().copy() for x in arrays]
        try:
            yield
        finally:
            for x, before in zip(arrays, values, strict=True):
                x.store(before)


def _is_float(a: array) -> bool:
    kinds = [scalar for _, scalar in types.leaves(a.element)]
    return all(isinstance(s, types.Scalar) and s.is_float for s in kinds)


def _number(given: str | int, names: Sequence[str], what: str) -> int:
    if isinstance(given, int):
        return given
    if given not in names:
        raise ValueError(f"there is no {what} '{given}' ({', '.join(names)})")
    return list(names).index(given)


def _scalars(a: array) -> np.ndarray:
    """All components in one dimension, over the array's own memory where it has no gaps."""
    return a.window().reshape(-1)


def _wrapped(values: np.ndarray, like: array) -> array:
    return array(values, dtype=types.BY_NUMPY[values.dtype], device=like.device)


def jacobian(function: Any, dim: Any = None, inputs: Sequence[Any] = (), outputs: Sequence[array] | None = None,
             input_output_mask: Mask = None, device: Any = None, max_blocks: int = 0, block_dim: int = 256,
             max_outputs_per_var: int = -1, restore_inputs: bool = True) -> Jacobians:  # fmt: skip
    """Jacobians by running a tape backwards once for each component of each output.

    input_output_mask: (input, output) pairs by name or number; default all. max_outputs_per_var: rows to compute of
    each Jacobian, the rest is NaN. Raises ValueError for a kernel whose backward pass is switched off.
    """
    problem = _Problem(function, dim, inputs, outputs, device, input_output_mask)
    if problem.is_kernel and backward_is_off(function):
        raise ValueError("Kernel must have backward pass enabled to compute Jacobians")
    found: Jacobians = {}
    with problem.restored(restore_inputs):
        for a in (*problem.inputs, *(problem.fixed or ())):
            if isinstance(a, array) and a.requires_grad:
                a.grad.zero_()  # type: ignore[union-attr]
        tape = Tape(strict=True)
        with tape:
            results = problem.run()
        pairs = problem.pairs(results)
        rows = {pair: _empty(results[pair[1]], problem.inputs[pair[0]]) for pair in pairs}
        for o in sorted({o for _, o in pairs}):
            count = next(rows[pair].shape[0] for pair in pairs if pair[1] == o)
            for row in range(count if max_outputs_per_var < 0 else min(count, max_outputs_per_var)):
                _one_row(tape, problem, results[o], row, {i: rows[i, p] for i, p in pairs if p == o})
        found = {pair: _wrapped(values, results[pair[1]]) for pair, values in rows.items()}
        tape.reset()
    return found


def _empty(output: array, x: array) -> np.ndarray:
    inner = _scalars(x)
    return np.full((_scalars(output).size, inner.size), np.nan, inner.dtype)


def _one_row(tape: Tape, problem: _Problem, output: array, row: int, rows: dict[int, np.ndarray]) -> None:
    """The gradient of one component of an output."""
    tape.zero()
    seed = np.zeros(_scalars(output).size, _scalars(output).dtype)
    seed[row] = 1
    seeds = array.allocate(output.dtype, output.shape, output.layout, output.device)
    seeds.store(seed.reshape(seeds.window().shape))
    tape.backward(grads={output: seeds})
    for i, values in rows.items():
        g = tape.gradients[problem.inputs[i]] if problem.inputs[i] in tape.gradients else None
        values[row] = 0 if g is None else g.numpy().reshape(-1)


def jacobian_fd(function: Any, dim: Any = None, inputs: Sequence[Any] = (), outputs: Sequence[array] | None = None,
                input_output_mask: Mask = None, device: Any = None, max_blocks: int = 0, block_dim: int = 256,
                max_inputs_per_var: int = -1, eps: float = 1e-4, restore_inputs: bool = True) -> Jacobians:  # fmt: skip
    """Jacobians by central differences with the step `eps`; max_inputs_per_var: columns to compute, the rest is NaN."""
    problem = _Problem(function, dim, inputs, outputs, device, input_output_mask)
    with problem.restored(restore_inputs):
        kept = [x.numpy().copy() if isinstance(x, array) else None for x in problem.inputs]

        def evaluate(i: int, column: int, step: float) -> list[np.ndarray]:
            if restore_inputs:
                for x, before in zip(problem.inputs, kept, strict=True):
                    if before is not None:
                        x.store(before)
            moved = problem.inputs[i]
            place = np.unravel_index(column, moved.window().shape)
            moved.store(moved.window()[place] + step, place)
            results = [y.numpy().reshape(-1).astype(np.float64) for y in problem.run()]
            if not restore_inputs:
                moved.store(moved.window()[place] - step, place)
            return results

        results = problem.run()
        pairs = problem.pairs(results)
        rows = {pair: _empty(results[pair[1]], problem.inputs[pair[0]]) for pair in pairs}
        for i in sorted({i for i, _ in pairs}):
            count = _scalars(problem.inputs[i]).size
            for column in range(count if max_inputs_per_var < 0 else min(count, max_inputs_per_var)):
                up, down = evaluate(i, column, eps), evaluate(i, column, -eps)
                for o in (p for n, p in pairs if n == i):
                    rows[i, o][:, column] = (up[o] - down[o]) / (2 * eps)
    return {pair: _wrapped(values, results[pair[1]]) for pair, values in rows.items()}


def gradcheck(function: Any, dim: Any = None, inputs: Sequence[Any] = (), outputs: Sequence[array] | None = None, *,
              eps: float = 1e-4, atol: float = 1e-3, rtol: float = 1e-2, raise_exception: bool = True,
              input_output_mask: Mask = None, device: Any = None, max_blocks: int = 0, block_dim: int = 256,
              max_inputs_per_var: int = -1, max_outputs_per_var: int = -1, show_summary: bool = True,
              restore_inputs: bool = True) -> bool:  # fmt: skip
    """Whether the gradients agree with central differences, |a - b| <= atol + rtol |b|; NaN never agrees.

    Raises ValueError naming the pair and its largest difference, unless raise_exception is False.
    """
    common: dict[str, Any] = {
        "input_output_mask": input_output_mask,
        "device": device,
        "restore_inputs": restore_inputs,
    }
    exact = jacobian(function, dim, inputs, outputs, max_outputs_per_var=max_outputs_per_var, **common)
    approximate = jacobian_fd(function, dim, inputs, outputs, max_inputs_per_var=max_inputs_per_var, eps=eps, **common)
    problem = _Problem(function, dim, inputs, outputs, device, input_output_mask)
    good = True
    for (i, o), a in exact.items():
        rows = slice(None) if max_outputs_per_var < 0 else slice(max_outputs_per_var)
        columns = slice(None) if max_inputs_per_var < 0 else slice(max_inputs_per_var)
        x, y = a.numpy()[rows, columns].astype(np.float64), approximate[i, o].numpy()[rows, columns].astype(np.float64)
        worst = float(np.abs(x - y).max(initial=0.0))
        fits = bool(np.isfinite(x).all() and np.allclose(x, y, atol=atol, rtol=rtol))
        name = f"input {problem.input_names[i]}, output {dict(enumerate(problem.output_names)).get(o, o)}"
        if show_summary:
            print(f"gradcheck {name}: largest difference {worst:.3g} {'ok' if fits else 'WRONG'}")
        if not fits and raise_exception:
            raise ValueError(f"the gradient differs from finite differences: {name}: largest difference {worst:.3g}")
        good &= fits
    return good


def gradcheck_tape(tape: Tape, *, eps: float = 1e-4, atol: float = 1e-3, rtol: float = 1e-2,
                   raise_exception: bool = True, input_output_masks: dict[str, Mask] | None = None,
                   blacklist_kernels: Iterable[str] = (), whitelist_kernels: Iterable[str] = (),
                   max_inputs_per_var: int = -1, max_outputs_per_var: int = -1, reverse_launches: bool = False,
                   skip_to_launch_index: int = 0, show_summary: bool = True) -> bool:  # fmt: skip
    """`gradcheck` of each launch on a tape by itself, with the values that its arrays have now."""
    entries = [e for e in tape.entries[skip_to_launch_index:] if e.plan is not None]
    white, black = set(whitelist_kernels), set(blacklist_kernels)
    good = True
    for entry in reversed(entries) if reverse_launches else entries:
        plan = entry.plan
        assert plan is not None
        if entry.name in black or (white and entry.name not in white) or backward_is_off(plan.kernel):
            continue
        split = _split(plan)
        good &= gradcheck(
            plan.kernel, plan.dim, plan.args[:split], plan.args[split:], eps=eps, atol=atol, rtol=rtol,
            raise_exception=raise_exception, input_output_mask=(input_output_masks or {}).get(entry.name),
            device=plan.device, max_inputs_per_var=max_inputs_per_var, max_outputs_per_var=max_outputs_per_var,
            show_summary=show_summary,
        )  # fmt: skip
    return good


def _split(plan: Any) -> int:
    """Where the outputs begin: behind the last argument that is not written."""
    written = {key[0] for key in plan.prints.writes}
    split = len(plan.args)
    while split and split - 1 in written:
        split -= 1
    return split


def jacobian_plot(jacobians: Jacobians, function: Any, inputs: Sequence[Any] | None = None,
                  outputs: Sequence[Any] | None = None, show_plot: bool = True, show_colorbar: bool = True,
                  title: str | None = None) -> Any:  # fmt: skip
    """The Jacobians as images, one for each pair; gives the Matplotlib figure, None where there are no Jacobians.

    Raises ValueError without inputs, ImportError where Matplotlib is not installed.
    """
    if inputs is None:
        raise ValueError("inputs must be provided")
    if not jacobians:
        return None
    try:
        import matplotlib.pyplot as plt  # type: ignore[import-not-found]
    except ImportError as error:
        raise ImportError("jacobian_plot needs Matplotlib: pip install 'weft-engine[plot]'") from error

    problem = _Problem(function, 1, inputs, outputs or (), None, None)
    figure, axes = plt.subplots(1, len(jacobians), squeeze=False, layout="constrained")
    figure.suptitle(title or f"{getattr(function, 'key', getattr(function, '__name__', 'unknown'))} kernel Jacobian")
    for axis, ((i, o), values) in zip(axes[0], sorted(jacobians.items()), strict=True):
        image = axis.imshow(values.numpy(), aspect="auto")
        axis.set_xlabel(problem.input_names[i])
        axis.set_ylabel(problem.output_names[o] if o < len(problem.output_names) else f"output_{o}")
        if show_colorbar:
            figure.colorbar(image, ax=axis)
    if show_plot:
        plt.show()
    return figure
