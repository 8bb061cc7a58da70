"""Many points in the order of a curve through space, so that questions about neighbours come one after the other."""

from typing import Any

import numpy as np

from engine.compiler import lang as k
from engine.context import empty, launch
from engine.geom.bvh_split import spread_bits
from engine.kernels.sort import RadixSort, begin_order

FEW = 1024  # points that are not worth it
BITS = 24  # of a place on the curve


@k.requires(lambda tid, points, codes, order: tid < points.shape[0] and tid < codes.shape[0] and tid < order.shape[0])
@k.kernel(enable_backward=False)
def code_points(points: k.array(dtype=k.vec3), low: k.vec3, scale: float, codes: k.array(dtype=k.uint32),
                order: k.array(dtype=int)):  # fmt: skip
    """Where on a curve through 256³ cells each point lies; those outside are in the cells of the border."""
    i = k.tid()
    code = k.uint32(0)
    for c in range(3):
        cell = k.uint32(k.clamp(int((points[i][c] - low[c]) * scale), 0, (1 << BITS // 3) - 1))
        code = code | (spread_bits(cell) << k.uint32(2 - c))
    codes[i] = code
    order[i] = i


def curve_order(points: Any, lower: Any, upper: Any) -> Any:
    """int32 (n,): the numbers of points along a curve through a box and around it; of few, as they are."""
    n, device = len(points), points.device
    order = empty(n, dtype=int, device=device)
    if n < FEW:
        launch(begin_order, n, inputs=[order], device=device)
        return order
    codes = empty(n, dtype=k.uint32, device=device)
    with np.errstate(all="ignore"):  # of nothing, and of huge boxes, any order will do
        width = float(np.max(upper - lower))
        low = (lower + upper) / 2 - width  # with half of the width on either side
        scale = (1 << BITS // 3) / (2.0 * width) if 0.0 < width < 1e30 else 0.0
    launch(code_points, n, inputs=[points, k.vec3(*low), scale, codes, order], device=device)
    RadixSort(n, device, dtype=k.uint32).run(codes, order, n, BITS)
    return order
