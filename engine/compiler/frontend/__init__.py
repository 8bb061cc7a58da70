"""Python function → HIR: one pass over the syntax tree, types inferred on the way.

`source` is parsed, `statements` and `expressions` visit it; `operators`, `calls`, `constructors`, `intrinsics` and
`places` give the constructs their meaning; `functions` specialises callees. `tiles` and `tile_…` are about tiles.
`context` is what they share.
"""

from engine.compiler.frontend import (  # noqa: F401  (they register visitors)
    adjoints,
    blocks,
    calls,
    contracts,
    expressions,
    operators,
    printing,
    statements,
    tile_algebra,
    tile_arange,
    tile_scatter,
    tiles,
)
from engine.compiler.frontend.functions import lower_function

__all__ = ["lower_function"]
