"""Sokoban rooms drawn as text."""

from __future__ import annotations

from ragen_envs.sokoban.env import SokobanEnv
from ragen_envs.sokoban.room import Room


def room_of(*rows: str) -> Room:
    """The room that `rows` draw, in the symbols of Room.grid."""
    cells = {(r, c): symbol for r, row in enumerate(rows) for c, symbol in enumerate(row)}
    floor = frozenset(cell for cell, symbol in cells.items() if symbol != "#")
    targets = tuple(sorted(cell for cell, symbol in cells.items() if symbol in "O√S"))
    boxes = tuple(sorted(cell for cell, symbol in cells.items() if symbol in "X√"))
    (player,) = (cell for cell, symbol in cells.items() if symbol in "PS")
    return Room(len(rows), len(rows[0]), floor, targets, boxes, player)


def env_at(*rows: str) -> SokobanEnv:
    """A Sokoban environment in the position that `rows` draw."""
    env = SokobanEnv(observation="grid")
    env.reset(seed=0)
    env.room = room_of(*rows)
    return env
