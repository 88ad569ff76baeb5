"""The 2×2×2 cube as 24 stickers: quarter turns from geometry, shortest solutions by breadth-first search."""

from __future__ import annotations

from functools import lru_cache
from itertools import permutations, product

import numpy as np

Cube = tuple[str, ...]
"""Colours of the 24 stickers: four of each face in the order U, F, R, B, L, D, each face read by rows."""
Vector = tuple[int, int, int]
"""Coordinates: right, up, towards the front."""
Turn = tuple[int, ...]
"""A permutation: for each place the place that its sticker comes from."""
FACES: dict[str, tuple[Vector, Vector, Vector]] = {
    "U": ((0, 1, 0), (1, 0, 0), (0, 0, 1)),
    "F": ((0, 0, 1), (1, 0, 0), (0, -1, 0)),
    "R": ((1, 0, 0), (0, 0, -1), (0, -1, 0)),
    "B": ((0, 0, -1), (-1, 0, 0), (0, -1, 0)),
    "L": ((-1, 0, 0), (0, 0, 1), (0, -1, 0)),
    "D": ((0, -1, 0), (1, 0, 0), (0, 0, -1)),
}
"""The outward direction of each face, the direction of its rows, and that of its columns."""
COLOURS = dict(zip("UFRBLD", "WGRBOY", strict=True))
SOLVED: Cube = tuple(COLOURS[face] for face in FACES for _ in range(4))
_TABLE_DEPTH = 5
"""Depth in turns of the table of solved positions (2,944 cubes); deeper cubes are searched until they meet it."""


def _stickers() -> list[tuple[Vector, Vector]]:
    """Returns (corner, direction) of the 24 stickers."""
    found = []
    for out, across, down in FACES.values():
        for row, column in product((-1, 1), repeat=2):
            corner = tuple(o + column * a + row * d for o, a, d in zip(out, across, down, strict=True))
            found.append(((corner[0], corner[1], corner[2]), out))
    return found


def _cross(a: Vector, b: Vector) -> Vector:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def _dot(a: Vector, b: Vector) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _clockwise(axis: Vector, vector: Vector) -> Vector:
    """Returns `vector` turned clockwise by 90°, as seen from outside along `axis`."""
    along, side = _dot(axis, vector), _cross(vector, axis)
    return side[0] + along * axis[0], side[1] + along * axis[1], side[2] + along * axis[2]


def _face_turns() -> dict[str, Turn]:
    stickers = _stickers()
    place = {sticker: index for index, sticker in enumerate(stickers)}
    turns = {}
    for name, (axis, _, _) in FACES.items():
        source = list(range(24))
        for index, (corner, out) in enumerate(stickers):
            if _dot(corner, axis) > 0:
                source[place[_clockwise(axis, corner), _clockwise(axis, out)]] = index
        turns[name] = tuple(source)
        turns[f"{name}'"] = tuple(source.index(index) for index in range(24))
    return turns


TURNS: dict[str, Turn] = _face_turns()
"""The 12 quarter turns: clockwise as seen from outside, and with ' counter-clockwise."""


def turned(cube: Cube, turn: str) -> Cube:
    """Returns the cube after one quarter turn."""
    return tuple(cube[index] for index in TURNS[turn])


def is_solved(cube: Cube) -> bool:
    """Returns whether each face has one colour, however the whole cube is held."""
    return all(len(set(cube[4 * face : 4 * face + 4])) == 1 for face in range(6))


def scrambled(rng: np.random.Generator, turns: int) -> Cube | None:
    """Returns a cube exactly `turns` quarter turns away from solved, or None if the random turns were not that far."""
    cube, names = SOLVED, list(TURNS)
    for _ in range(turns):
        cube = turned(cube, names[int(rng.integers(len(names)))])
    return cube if len(shortest_solution(cube)) == turns else None


@lru_cache(maxsize=1)
def _whole_cube_turns() -> tuple[Turn, ...]:
    """Returns the permutations of the whole cube: 24 ways of holding it, each also in a mirror."""
    stickers = _stickers()
    place = {sticker: index for index, sticker in enumerate(stickers)}
    found = []
    for order, signs in product(permutations(range(3)), product((1, -1), repeat=3)):

        def held(vector: Vector, order: tuple[int, ...] = order, signs: tuple[int, ...] = signs) -> Vector:
            x, y, z = (sign * vector[index] for sign, index in zip(signs, order, strict=True))
            return x, y, z

        found.append(tuple(place[held(corner), held(out)] for corner, out in stickers))
    return tuple(found)


def key(cube: Cube) -> str:
    """Returns the canonical text, the same for cubes that differ by a rotation, a mirror or the colours' names."""
    forms = []
    for held in _whole_cube_turns():
        names: dict[str, str] = {}
        forms.append("".join(names.setdefault(cube[index], str(len(names))) for index in held))
    return min(forms)


@lru_cache(maxsize=1)
def _near_solved() -> dict[Cube, str]:
    """Returns for each cube up to _TABLE_DEPTH turns of U, R, F from solved the turn that brings it nearer ("":
    solved).
    """
    found, frontier = {SOLVED: ""}, [SOLVED]
    for _ in range(_TABLE_DEPTH):
        following = []
        for cube in frontier:
            for turn in _GENERATORS:
                after = turned(cube, turn)
                if after not in found:
                    found[after] = _inverse(turn)
                    following.append(after)
        frontier = following
    return found


_GENERATORS = ("U", "U'", "R", "R'", "F", "F'")
"""Turns that leave the corner at the bottom, back and left in place; all others equal one of these and a rotation."""


def _inverse(turn: str) -> str:
    return turn[0] if turn.endswith("'") else f"{turn}'"


@lru_cache(maxsize=16_384)
def shortest_solution(cube: Cube) -> tuple[str, ...]:
    """Returns a shortest solution of `cube` in quarter turns; deterministic."""
    near = _near_solved()
    start = _as_if_solved_there(cube)
    paths: dict[Cube, tuple[str, ...]] = {start: ()}
    frontier = [start]
    # Cubes of the table are met in the order of their distance only if a whole depth is looked at together.
    while not (met := [one for one in frontier if one in near]):
        following = []
        for one in frontier:
            for turn in _GENERATORS:
                after = turned(one, turn)
                if after not in paths:
                    paths[after] = (*paths[one], turn)
                    following.append(after)
        frontier = following
    return min((paths[one] + _down(one, near) for one in met), key=len)


def _down(cube: Cube, near: dict[Cube, str]) -> tuple[str, ...]:
    path: list[str] = []
    while near[cube]:
        path.append(near[cube])
        cube = turned(cube, path[-1])
    return tuple(path)


def _as_if_solved_there(cube: Cube) -> Cube:
    """Returns `cube` with its colours renamed so that its corner at the bottom, back and left is in place."""
    stickers = _stickers()
    opposite = {"W": "Y", "G": "B", "R": "O"} | {"Y": "W", "B": "G", "O": "R"}
    names: dict[str, str] = {}
    for index, (corner, _) in enumerate(stickers):
        if corner == (-1, -1, -1):
            names[cube[index]] = SOLVED[index]
            names[opposite[cube[index]]] = opposite[SOLVED[index]]
    return tuple(names[colour] for colour in cube)
