"""Every knob of the engine: its ENGINE_<NAME> variable, type, default, and what depends on it.

A knob's value is the first that there is of: the innermost `config.scope(...)`, an assignment (`config.threads = 2`),
the environment variable, the default. *Startup* knobs are frozen at the first use of a device: assigning them later
raises, because it could not have an effect. *Keyed* knobs change the code that is made, so they enter the key of the
kernel cache.
"""

from __future__ import annotations

import difflib
import enum
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

from engine.errors import ConfigError

T = TypeVar("T")
PREFIX = "ENGINE_"
# variables with the same prefix that the test suite reads, so that they are not taken for a mistyped knob
TEST_VARIABLES = ("ENGINE_ASSETS", "ENGINE_CASES", "ENGINE_TEST_DEVICES", "ENGINE_TEST_SEED")
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


class DeterministicMode(enum.IntEnum):
    """Whether gradients are summed in the same order every time; values of `config.deterministic`."""

    NOT_GUARANTEED = 0
    RUN_TO_RUN = 1
    GPU_TO_GPU = 2


class Knob(Generic[T]):
    """One typed setting of a `Config`; reads and checks a string from the environment or a value from Python alike."""

    def __init__(
        self,
        parse: Callable[[Any], T],
        default: T | Callable[[], T],
        doc: str,
        *,
        keyed: bool = False,
        startup: bool = False,
    ):
        self.parse, self.default, self.__doc__ = parse, default, doc
        self.keyed, self.startup = keyed, startup

    def __set_name__(self, owner: type, name: str) -> None:
        self.name, self.variable = name, PREFIX + name.upper()

    @overload
    def __get__(self, config: None, owner: type) -> Knob[T]: ...
    @overload
    def __get__(self, config: Config, owner: type) -> T: ...
    def __get__(self, config: Config | None, owner: type) -> Knob[T] | T:
        if config is None:
            return self
        try:
            return config._values[self.name]
        except KeyError:
            return config._first_value(self)

    def __set__(self, config: Config, value: Any) -> None:
        config._assign(self, self.checked_value(value, self.name))

    def checked_value(self, value: Any, origin: str) -> T:
        """`value` converted to the knob's type; `origin` names where it came from, for the error."""
        try:
            return self.parse(value)
        except (TypeError, ValueError) as error:
            raise ConfigError(origin, f"expected {error}, got {value!r}") from None

    def default_value(self) -> T:
        return self.default() if callable(self.default) else self.default


class Alias:
    """A second name of a knob."""

    def __init__(self, knob: str):
        self.knob = knob

    def __get__(self, config: Config | None, owner: type) -> Any:
        return self if config is None else getattr(config, self.knob)

    def __set__(self, config: Config, value: Any) -> None:
        setattr(config, self.knob, value)


class Inert:
    """A knob of Warp's that has nothing to set here: scripts written for Warp may assign it and read it back."""

    def __init__(self, default: Any):
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, config: Config | None, owner: type) -> Any:
        return self if config is None else config._values.get(self.name, self.default)

    def __set__(self, config: Config, value: Any) -> None:
        config._values[self.name] = value


def _flag(value: Any) -> bool:
    if isinstance(value, (bool, int)) and value in (0, 1):
        return bool(value)
    if isinstance(value, str) and value.lower() in _TRUE + _FALSE:
        return value.lower() in _TRUE
    raise ValueError("0 or 1 (true, false, yes, no, on, off)")


def _integer(low: int, high: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        expected = f"an integer from {low} to {high}"
        try:
            number = int(value) if isinstance(value, str) else value.__index__()
        except (AttributeError, ValueError):
            raise ValueError(expected) from None
        if isinstance(value, bool) or not low <= number <= high:
            raise ValueError(expected)
        return number

    return parse


def _lane_count(value: Any) -> int:
    number = _integer(0, 64)(value)
    if number & (number - 1):
        raise ValueError("0 (the target's own) or a power of two up to 64")
    return number


def _shape(value: Any) -> str:
    if value not in ("auto", "lanes", "thread", "timed"):
        raise ValueError("'auto', 'lanes', 'thread' or 'timed'")
    return value


def _schedule(value: Any) -> str:
    if value not in ("loop-aware", "ipdom", "random"):
        raise ValueError("'loop-aware', 'ipdom' or 'random'")
    return str(value)


def _folder(value: Any) -> Path:
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise ValueError("a folder")
    return Path(value).expanduser().absolute()


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a string")
    return value


def _mode(value: Any) -> str:
    if value not in ("release", "debug"):
        raise ValueError("'release' or 'debug'")
    return str(value)


def _anything(value: Any) -> Any:
    return value


def _default_cache_dir() -> Path:
    import platformdirs

    return Path(platformdirs.user_cache_dir("weft-engine", appauthor=False))


def available_threads() -> int:
    """How many processors this process may run on (an affinity mask or `taskset` counts), at least one."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


class Config:
    """The knobs. `config` below is the one that the engine reads; tests make their own over another environment.

    Assignments and scopes hold for the whole process, for all its threads.
    """

    cache_dir = Knob(_folder, _default_cache_dir, "folder of the compiled kernels", startup=True)
    cuda_driver = Knob(_text, "", "path of the CUDA driver library; empty: the system's", startup=True)

    device = Knob(_text, "", "device used where none is named; empty: the first GPU that works, else cpu")
    threads = Knob(_integer(1, 1024), available_threads, "worker threads of the cpu device; never changes results")
    graphs = Knob(_flag, True, "run the frames of a simulation as graphs; never changes results")
    kernel_cache = Knob(_flag, True, "keep compiled kernels in cache_dir and take them from there")
    verify = Knob(_flag, False, "verify the IR after every pass, not only before emission")
    verbose = Knob(_flag, False, "say on stderr what is compiled, loaded and reallocated")
    timing = Knob(_flag, False, "switch the global timer on")
    nvtx = Knob(_flag, False, "mark timed scopes as NVTX ranges (needs the nvtx package)")
    emu_budget = Knob(_integer(1, 1 << 60), 1 << 31, "instructions of warps that a launch on the emulated GPU may run")
    emu_schedule = Knob(_schedule, "loop-aware", "which lanes run next on the emulated GPU: loop-aware, ipdom, random")
    emu_seed = Knob(_integer(0, 1 << 62), 0, "where the random schedule of the emulated GPU begins")
    tape_limit = Knob(_integer(0, 1 << 50), 1 << 30, "bytes that one launch may record for gradients")

    checked = Knob(_flag, False, "check indices, and count divisions by zero, in kernels", keyed=True)
    verify_fp = Knob(_flag, False, "check that what kernels store into arrays is finite", keyed=True)
    fma = Knob(_flag, True, "contract a*b+c to one rounding, the same way on every target", keyed=True)
    fast_math = Knob(_flag, False, "reassociate floating-point arithmetic: results then differ", keyed=True)
    lanes = Knob(_lane_count, 0, "SIMD lanes of the lanes shape; 0: as wide as the target", keyed=True)
    shape = Knob(_shape, "auto", "form of CPU code where a kernel does not say: auto, lanes, thread, timed", keyed=True)
    opt_level = Knob(_integer(0, 3), 2, "LLVM's optimisation level; 3: passes that seldom help, too", keyed=True)
    max_unroll = Knob(_integer(0, 1024), 16, "loops with at most this many constant trips are unrolled", keyed=True)
    ptx_arch = Knob(_text, "sm_75", "architecture that PTX is made for where no GPU decides")
    ptx_version = Knob(_text, "", "PTX version, as 7.8; empty: the lowest that the architecture allows")
    mode = Knob(_mode, "release", '"debug" keeps the assert statements of kernels', keyed=True)

    deterministic = Knob(_anything, DeterministicMode.NOT_GUARANTEED,
                         "any other value: sum gradients in a fixed order, on one thread")  # fmt: skip

    # Warp's names for what has another name here; scripts assign them
    cache_kernels = Alias("kernel_cache")
    kernel_cache_dir = Alias("cache_dir")
    optimization_level = Alias("opt_level")
    # Warp's knobs that have nothing to set here
    quiet, verify_cuda, verify_autograd_array_access = (Inert(False) for _ in range(3))
    enable_cpu_blocks, legacy_scalar_return_types, legacy_cpu_linker = (Inert(False) for _ in range(3))
    use_precompiled_headers, print_launches, track_memory, lineinfo, verbose_warnings = (Inert(False) for _ in range(5))
    enable_backward, enable_vector_component_overwrites = (Inert(True) for _ in range(2))
    cpu_compiler_flags, launch_array_access_mode = (Inert(None) for _ in range(2))
    load_module_max_workers, default_grid_stride = (Inert(None) for _ in range(2))
    log_level = Inert(30)

    def __init__(self, environ: Mapping[str, str] | None = None):
        self._environ = os.environ if environ is None else environ
        self._values: dict[str, Any] = {}
        self._frozen_by = ""
        self.revision = 0  # counts the changes of keyed knobs: code made at another revision may differ

    def __setattr__(self, name: str, value: Any) -> None:
        known = isinstance(vars(Config).get(name), Knob | Alias | Inert)
        if not (known or name == "revision" or name.startswith("_")):
            raise self._unknown(name)
        super().__setattr__(name, value)

    @classmethod
    def _knobs(cls) -> dict[str, Knob[Any]]:
        return {name: knob for name, knob in vars(cls).items() if isinstance(knob, Knob)}

    @classmethod
    def _unknown(cls, name: str) -> ConfigError:
        near = difflib.get_close_matches(name, cls._knobs(), n=1)
        return ConfigError(name, "no such knob" + (f"; did you mean '{near[0]}'?" if near else ""))

    def _first_value(self, knob: Knob[T]) -> T:
        text = self._environ.get(knob.variable)
        value = knob.default_value() if text is None else knob.checked_value(text, knob.variable)
        return self._values.setdefault(knob.name, value)

    def _assign(self, knob: Knob[T], value: T) -> None:
        if knob.startup and self._frozen_by and value != knob.__get__(self, type(self)):
            raise ConfigError(knob.name, f"is fixed since {self._frozen_by}: assign it, or set {knob.variable}, before")
        self._store(knob, value)

    def _store(self, knob: Knob[T], value: T) -> None:
        if knob.keyed and self._values.get(knob.name, knob) != value:
            self.revision += 1
        self._values[knob.name] = value

    @contextmanager
    def scope(self, **overrides: Any) -> Iterator[Config]:
        """The knobs in `overrides` hold inside the `with` block; afterwards they are what they were before it.

        Raises `ConfigError` for an unknown knob, a value that it does not take, or a startup knob that is frozen;
        nothing is changed then.
        """
        knobs = self._knobs()
        for name in overrides:
            if name not in knobs:
                raise self._unknown(name)
        wanted = {name: knobs[name].checked_value(value, name) for name, value in overrides.items()}
        saved = {name: getattr(self, name) for name in wanted}
        try:
            for name, value in wanted.items():
                setattr(self, name, value)
            yield self
        finally:
            for name, value in saved.items():
                self._store(knobs[name], value)

    def freeze(self, reason: str) -> None:
        """Fixes the startup knobs, for `reason` ("the first use of device 'cpu'"). Only the first call counts."""
        if not self._frozen_by:
            for knob in self._knobs().values():
                if knob.startup:
                    knob.__get__(self, type(self))
            self._frozen_by = reason

    @property
    def keeps_asserts(self) -> bool:
        """Whether kernels keep their assert statements: in debug mode and in checked mode."""
        return self.mode == "debug" or self.checked

    def cache_key(self) -> tuple[tuple[str, Any], ...]:
        """The keyed knobs and their values, in a fixed order: what makes the same kernel compile to other code."""
        return tuple((name, getattr(self, name)) for name, knob in sorted(self._knobs().items()) if knob.keyed)

    def describe(self) -> list[tuple[str, str, Any, Any, str]]:
        """One row for each knob: name, variable, value, default, meaning; for `engine info` and the documentation."""
        return [
            (name, knob.variable, getattr(self, name), knob.default_value(), knob.__doc__ or "")
            for name, knob in self._knobs().items()
        ]

    def unknown_variables(self) -> list[tuple[str, str]]:
        """ENGINE_* variables that no knob reads (typing errors), each with the nearest that one does, or ""."""
        known = [knob.variable for knob in self._knobs().values()]
        found = [name for name in self._environ if name.startswith(PREFIX) and name not in known]
        near = {name: difflib.get_close_matches(name, known, n=1) for name in found if name not in TEST_VARIABLES}
        return sorted((name, match[0] if match else "") for name, match in near.items())


config = Config()
