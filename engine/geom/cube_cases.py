"""How a surface cuts a cube: the triangles of marching cubes for each of the 256 cases, derived instead of listed.

On each face the cut edges are joined in pairs; where all four edges of a face are cut, each inside corner is cut off by
itself. Both cubes at a face see the same four corners, so they join the same pairs: surfaces have no cracks (Nielson,
Hamann 1991 describe the ambiguity that Lorensen, Cline 1987 left). The pairs close to loops, and loops are cut into
triangles by diagonals that do not lie in a face, where the neighbour might have the same one.
"""

from __future__ import annotations

import functools

CORNERS = ((0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1))
# (low corner, high corner): each edge points along an axis
EDGES = ((0, 1), (1, 2), (3, 2), (0, 3), (4, 5), (5, 6), (7, 6), (4, 7), (0, 4), (1, 5), (2, 6), (3, 7))
# corners of each face, counter-clockwise from outside
FACES = ((0, 3, 2, 1), (4, 5, 6, 7), (0, 1, 5, 4), (2, 3, 7, 6), (0, 4, 7, 3), (1, 2, 6, 5))

Loop = tuple[int, ...]  # edges


def edge_between(a: int, b: int) -> int:
    return EDGES.index((a, b) if (a, b) in EDGES else (b, a))


FACE_EDGES = tuple(frozenset(edge_between(f[i], f[(i + 1) % 4]) for i in range(4)) for f in FACES)


def loops(case: int) -> list[Loop]:
    """The loops in which the surface cuts the cube's faces. Bit c of the case: corner c is inside (below threshold).

    Counter-clockwise as seen from outside of the surface.
    """
    following: dict[int, int] = {}
    for face in FACES:
        inside = [case >> c & 1 == 1 for c in face]
        for i in range(4):
            if inside[i] or not inside[(i + 1) % 4]:
                continue
            end = next(n for n in range(i + 1, i + 5) if inside[n % 4] and not inside[(n + 1) % 4])
            entry = edge_between(face[i], face[(i + 1) % 4])
            leaving = edge_between(face[end % 4], face[(end + 1) % 4])
            following[entry] = leaving
    found = []
    while following:
        start = min(following)
        loop = [start]
        while (after := following.pop(loop[-1])) != start:
            loop.append(after)
        found.append(tuple(loop))
    return found


def in_one_face(a: int, b: int) -> bool:
    return any(a in edges and b in edges for edges in FACE_EDGES)


def triangles(loop: Loop) -> list[tuple[int, int, int]]:
    """The loop cut into triangles, with as few diagonals in faces of the cube as possible."""

    @functools.cache
    def cheapest(i: int, j: int) -> tuple[int, tuple[tuple[int, int, int], ...]]:
        """Of the part from i to j, closed by the diagonal between them."""
        if j - i < 2:
            return 0, ()
        options = []
        for m in range(i + 1, j):
            (left, a), (right, b) = cheapest(i, m), cheapest(m, j)
            cost = sum(in_one_face(loop[x], loop[y]) for x, y in ((i, m), (m, j)) if y - x > 1)
            options.append((left + right + cost, (*a, (loop[i], loop[m], loop[j]), *b)))
        return min(options)

    return list(cheapest(0, len(loop) - 1)[1])


def case_triangles(case: int) -> list[tuple[int, int, int]]:
    return [t for loop in loops(case) for t in triangles(loop)]


def _tables() -> tuple[tuple[int, ...], tuple[int, ...]]:
    starts, edges = [0], list[int]()
    for case in range(256):
        for triangle in case_triangles(case):
            edges.extend(triangle)
        starts.append(len(edges))
    return tuple(starts), tuple(edges)


CASE_STARTS, TRIANGLE_EDGES = _tables()  # case c has the edges TRIANGLE_EDGES[CASE_STARTS[c] : CASE_STARTS[c + 1]]
