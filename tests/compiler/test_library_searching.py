"""lower_bound against NumPy's searchsorted, which may give one position more."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.compiler import lang as k
from engine.context import array, launch, zeros


@k.kernel
def find(
    values: k.array(dtype=float), sorted_: k.array(dtype=float), out: k.array(dtype=int), part: k.array(dtype=int)
):
    i = k.tid()
    out[i] = k.lower_bound(sorted_, values[i])
    part[i] = k.lower_bound(sorted_, 1, len(sorted_) - 1, values[i])


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(-5, 5), min_size=3, max_size=30), st.lists(st.integers(-7, 7), min_size=1, max_size=10))
def test_lower_bound(numbers, wanted):
    x, values = np.sort(np.array(numbers, np.float32)), np.array(wanted, np.float32)
    out, part = zeros(len(values), dtype=int), zeros(len(values), dtype=int)
    launch(find, len(values), [array(values), array(x), out, part])
    np.testing.assert_array_equal(out.numpy(), np.minimum(np.searchsorted(x, values), len(x) - 1))
    np.testing.assert_array_equal(part.numpy(), 1 + np.minimum(np.searchsorted(x[1:-1], values), max(len(x) - 3, 0)))
