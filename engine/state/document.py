"""docs/state.md from the schema: `python -m engine.state.document > docs/state.md`."""

from __future__ import annotations

from engine.state.schema import FIELDS, TABLES, Field, dims_of, schema_hash

INTRODUCTION = """\
# The state

Generated from `engine/state/schema.py` by `python -m engine.state.document`; a test keeps it up to date.

All modules share this one state. Each field is an array of planes: component `k` of all elements lies together, and
`field.numpy()` shows it as (n, components) without a copy. SI units and radians; quaternions are x, y, z, w. In the
column *frame*, *body* means the body's own axes and origin, *shape* and *joint* likewise. *Initially* is the value of a
new element; *model* means that it is copied from the Model field of the same name.
"""

SYMBOLS = {
    "one": "always 1",
    "nbody": "rigid bodies",
    "nshape": "collision shapes",
    "nhull": "different convex hulls",
    "nhullvertex": "vertices of all hulls",
    "nhullface": "faces of all hulls",
    "nhullindex": "face corners of all hulls",
    "nhulledge": "edges of all hulls",
    "njoint": "joints",
    "ndof": "degrees of freedom of all joints",
    "ncoord": "coordinates of all joints (a ball has 4 for 3 degrees of freedom)",
    "nfilter": "shape pairs that never collide",
    "nparticle": "particles",
    "noutflow": "boxes in which particles are removed",
    "nemitter": "emitters of particles",
    "nemitterpoint": "particles of a layer of each emitter, all together",
    "nfluid": "fluids",
    "nboundary": "points on the surfaces of solids that keep fluids out",
    "npair": "capacity for shape pairs that may touch",
    "npoint": "4 npair: contact points",
}


def state_document() -> str:
    """The text of docs/state.md."""
    parts = [INTRODUCTION, f"Schema `{schema_hash()}`.\n", "## Counts\n", _symbols()]
    for table in TABLES:
        parts += [f"## {table}\n", _table([f for f in FIELDS if f.table == table])]
    return "\n".join(parts)


def _symbols() -> str:
    used = dict.fromkeys(symbol for table in TABLES for symbol in dims_of(table))
    rows = [f"| `{symbol}` | {SYMBOLS.get(symbol, '')} |" for symbol in used]
    return "\n".join(["| symbol | number of |", "|---|---|", *rows, ""])


def _table(fields: list[Field]) -> str:
    head = [
        "| field | type | size | unit | frame | initially | written by | meaning |",
        "|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *map(_row, fields), ""])


def _row(f: Field) -> str:
    cells = (f"`{f.name}`", f.dtype, f.dim, f.unit, f.frame, _initial(f), f.writer, f.doc)
    return "| " + " | ".join(str(c).replace("|", "\\|") for c in cells) + " |"


def _initial(f: Field) -> str:
    return f.init if isinstance(f.init, str) else f"{f.init:.7g}" if isinstance(f.init, float) else str(f.init)


if __name__ == "__main__":
    print(state_document(), end="")
