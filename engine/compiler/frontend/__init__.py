"""Python function → HIR: one pass over the syntax tree, types inferred on the way.

`source` is parsed, `statements` and `expressions` visit it; `operators`, `calls`, `constructors`, `intrinsics` and
`places` give the constructs their meaning; `functions` specialises callees. `context` is what they share.
"""

from engine.compiler.frontend import adjoints, blocks, calls, expressions, operators, printing, statements  # noqa: F401  (they register visitors)
from engine.compiler.frontend.functions import lower_function

__all__ = ["lower_function"]
