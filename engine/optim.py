"""Optimisers that change arrays of parameters by their gradients, in place and on the device: Adam and SGD."""

from collections.abc import Sequence
from typing import Any

from engine.compiler import lang as k
from engine.compiler import types
from engine.context import array, launch, zeros
from engine.context import array_views as views


@k.requires(lambda tid, g, m, v, params: tid < m.shape[0] and tid < g.shape[0] and tid < v.shape[0]
    and tid < params.shape[0])  # fmt: skip
@k.kernel
def adam_step(
    g: k.array(dtype=Any), m: k.array(dtype=Any), v: k.array(dtype=Any), rate: float, beta1: float, beta2: float,
    correction1: float, correction2: float, eps: float, params: k.array(dtype=Any),
):  # fmt: skip
    """One element: moments of the gradient, then a step along their ratio."""
    i = k.tid()
    t = type(m[i])
    slope = t(g[i])
    m[i] = t(beta1) * m[i] + (t(1.0) - t(beta1)) * slope
    v[i] = t(beta2) * v[i] + (t(1.0) - t(beta2)) * slope * slope
    step = t(rate) * (m[i] / t(correction1)) / (k.sqrt(v[i] / t(correction2)) + t(eps))
    params[i] = type(params[i])(t(params[i]) - step)


@k.requires(lambda tid, g, b, params: tid < b.shape[0] and tid < g.shape[0] and tid < params.shape[0])
@k.kernel
def sgd_step(
    g: k.array(dtype=Any), b: k.array(dtype=Any), rate: float, decay: float, momentum: float, dampening: float,
    nesterov: int, first: int, params: k.array(dtype=Any),
):  # fmt: skip
    """One element: gradient with weight decay, momentum, then a step."""
    i = k.tid()
    t = type(b[i])
    slope = t(g[i]) + t(decay) * t(params[i])
    if momentum != 0.0:
        kept = slope
        if first == 0:
            kept = t(momentum) * b[i] + (t(1.0) - t(dampening)) * slope
        b[i] = kept
        slope = slope + t(momentum) * kept if nesterov != 0 else kept
    params[i] = type(params[i])(t(params[i]) - t(rate) * slope)


def _flat(a: array) -> array:
    """The scalars of an array in one dimension."""
    if not a.is_contiguous:
        raise ValueError("optimisers work on contiguous arrays")
    scalar = types.leaves(a.element)[0][1]
    size = a.size * len(types.leaves(a.element))
    return array.over(
        scalar, "aos", (size,), views.contiguous_strides((size,), scalar.size), a.ptr, 0, a.block, a.device
    )


def _state_of(param: array) -> Any:
    """The element type of an optimiser's state: as the parameter's, in at least float32."""
    return types.float32 if param.element == types.float16 else param.dtype


class _Optimiser:
    """What Adam and SGD have in common: parameters, checks, and state arrays shaped like the parameters."""

    state: tuple[str, ...] = ()

    def __init__(self, params: Sequence[array] | None):
        self.params: list[array] | None = None
        for name in self.state:
            setattr(self, name, [])
        self.t = 0
        self.set_params(params)

    def set_params(self, params: Sequence[array] | None) -> None:
        """The arrays to optimise; state of arrays that fit the former ones is kept."""
        self.params = None if params is None else list(params)
        for p in self.params or ():
            same = types.components(p.element)
            if same is None or not same[0].is_float:
                raise TypeError(f"parameters are float arrays or arrays of vectors of floats, got {p!r}")
        for name in self.state:
            before = getattr(self, name)
            setattr(self, name, [self._kept(before, n, p) for n, p in enumerate(self.params or ())])

    @staticmethod
    def _kept(before: list[array], n: int, p: array) -> array:
        if n < len(before):
            old = before[n]
            wanted = zeros(1, dtype=_state_of(p), device=p.device).ir_type
            if old.shape == p.shape and old.ir_type.dtype == wanted.dtype and old.device is p.device:
                return old
        return zeros(p.shape, dtype=_state_of(p), device=p.device)

    def reset_internal_state(self) -> None:
        """Begins anew: as if no step had been taken."""
        for name in self.state:
            for a in getattr(self, name):
                a.zero_()
        self.t = 0

    def step(self, grad: Sequence[array]) -> None:
        """Changes the parameters by one step along their gradients, given in the same order.

        Raises RuntimeError without parameters, TypeError or ValueError for a gradient unlike its parameter.
        """
        name = type(self).__name__
        if self.params is None:
            raise RuntimeError(f"{name} parameters must be set before calling step(), got None")
        if len(grad) != len(self.params):
            raise ValueError(f"{name} has {len(self.params)} parameters, got {len(grad)} gradients")
        for n, (p, g) in enumerate(zip(self.params, grad, strict=True)):
            if g.element != p.element:
                raise TypeError(f"{name} gradient dtype must match parameter dtype {p.element!r}, got {g.element!r}")
            if g.shape != p.shape:
                raise ValueError(f"{name} gradient shape must match parameter shape {p.shape}, got {g.shape}")
            self._step(n, _flat(p), _flat(g))
        self.t += 1

    def _step(self, n: int, params: array, g: array) -> None:
        raise NotImplementedError


class Adam(_Optimiser):
    """Adam (Kingma & Ba, arXiv:1412.6980, algorithm 1).

    lr: step size. betas: decay of the first and second moment. eps: added to the root of the second.
    """

    state = ("m", "v")
    m: list[array]
    v: list[array]

    def __init__(self, params: Sequence[array] | None = None, lr: float = 0.001,
                 betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8):  # fmt: skip
        self.lr, self.beta1, self.beta2, self.eps = lr, *betas, eps
        super().__init__(params)

    def _step(self, n: int, params: array, g: array) -> None:
        corrections = 1.0 - self.beta1 ** (self.t + 1), 1.0 - self.beta2 ** (self.t + 1)
        inputs = [g, _flat(self.m[n]), _flat(self.v[n]), self.lr, self.beta1, self.beta2, *corrections, self.eps]
        launch(adam_step, params.size, inputs, [params], device=params.device, record_tape=False)


class SGD(_Optimiser):
    """Gradient descent with momentum, dampening, weight decay and Nesterov's look-ahead, as PyTorch's.

    The first step takes the gradient itself as momentum.
    """

    state = ("b",)
    b: list[array]

    def __init__(self, params: Sequence[array] | None = None, lr: float = 0.001, momentum: float = 0.0,
                 dampening: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False):  # fmt: skip
        self.lr, self.momentum, self.dampening = lr, momentum, dampening
        self.weight_decay, self.nesterov = weight_decay, nesterov
        super().__init__(params)

    def _step(self, n: int, params: array, g: array) -> None:
        launch(sgd_step, params.size, [g, _flat(self.b[n]), self.lr, self.weight_decay, self.momentum, self.dampening,
                                       int(self.nesterov), int(self.t == 0), params],
               device=params.device, record_tape=False)  # fmt: skip
