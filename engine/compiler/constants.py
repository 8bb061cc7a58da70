"""Mathematical constants of the language; in kernels they adapt to the type of the other operand, as literals do."""

from __future__ import annotations

import math

E = e = math.e
INF = inf = math.inf
NAN = nan = math.nan
PI = pi = math.pi
HALF_PI = half_pi = math.pi / 2
TAU = tau = math.tau
PHI = phi = (1 + math.sqrt(5)) / 2
LOG2E = log2e = math.log2(math.e)
LOG10E = log10e = math.log10(math.e)
LN2 = ln2 = math.log(2)
LN10 = ln10 = math.log(10)
