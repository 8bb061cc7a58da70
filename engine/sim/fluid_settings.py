"""What fluid solvers can be told: tolerances, limits of iterations and of the time step."""

from __future__ import annotations

import math
from dataclasses import dataclass

METHODS = ("dfsph", "wcsph", "pbf")


@dataclass(frozen=True)
class Settings:
    """Errors are averages, relative to the density at rest."""

    method: str = "dfsph"  # one of METHODS

    density_error: float = 1e-3
    divergence_error: float = 1e-3  # per step
    least_iterations: int = 2
    most_iterations: int = 100
    cfl: float = 0.4  # particle diameters that the fastest particle may travel in a step
    longest_step: float = 0.005  # s
    shortest_step: float = 1e-5  # s; a faster fluid is reported
    solve_divergence: bool = True
    # Whether fluid fills the whole domain, so that there is no free surface: pressures then have both signs.
    filled: bool = False
    sound_speed: float | None = None  # m/s, of wcsph; None: ten times what the fluid can reach
    vorticity: float = 0.0  # strength of the confinement, about 0.01 to 0.5
    # Viscosity inside fluids: True solves for the velocities at the end of the step, False takes those at its start and
    # no longer steps than are stable; None: True where that would shorten the longest step.
    implicit_viscosity: bool | None = None
    viscosity_error: float = 1e-5  # residual of that solve, relative to the momentum
    most_viscosity_iterations: int = 200

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, got {self.method!r}")
        if self.sound_speed is not None and not (math.isfinite(self.sound_speed) and self.sound_speed > 0.0):
            raise ValueError(f"sound_speed must be a positive number, got {self.sound_speed!r}")
        if not (math.isfinite(self.vorticity) and self.vorticity >= 0.0):
            raise ValueError(f"vorticity must be at least 0, got {self.vorticity!r}")
        for name in ("density_error", "divergence_error", "viscosity_error", "cfl", "longest_step", "shortest_step"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0.0):
                raise ValueError(f"{name} must be a positive number, got {value!r}")
        if self.shortest_step > self.longest_step:
            raise ValueError(f"shortest_step {self.shortest_step:g} is above longest_step {self.longest_step:g}")
        if not 1 <= self.least_iterations <= self.most_iterations:
            raise ValueError(f"iterations must be from 1 up, got {self.least_iterations} to {self.most_iterations}")
        if self.most_viscosity_iterations < 1:
            raise ValueError(f"most_viscosity_iterations must be at least 1, got {self.most_viscosity_iterations}")
