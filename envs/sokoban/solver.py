"""Breadth-first search for a shortest Sokoban solution."""

from __future__ import annotations

from collections import deque
from functools import lru_cache

from ragen_envs.sokoban.room import MOVES, Cell, Room, shift


@lru_cache(maxsize=65_536)
def shortest_solution(room: Room, max_steps: int = 100) -> tuple[str, ...] | None:
    """Returns a shortest solution of `room`; None if there is none within `max_steps`.

    Deterministic: of equally short solutions the first one in the order Up, Down, Left, Right, so that demonstrations
    are a function of the room.
    """
    targets = room.targets
    start = (room.player, room.boxes)
    if room.boxes == targets:
        return ()
    parents: dict[tuple[Cell, tuple[Cell, ...]], tuple[tuple[Cell, tuple[Cell, ...]], str] | None] = {start: None}
    frontier = deque([(start, 0)])
    while frontier:
        state, depth = frontier.popleft()
        if depth == max_steps:
            continue
        for move, step in MOVES.items():
            following = _moved(room.floor, state, step)
            if following is None or following in parents:
                continue
            parents[following] = (state, move)
            if following[1] == targets:
                return _path(parents, following)
            frontier.append((following, depth + 1))
    return None


def solved_by(room: Room, plan: tuple[str, ...]) -> bool:
    """Returns whether `room` is solved after any of the moves of `plan`."""
    state = (room.player, room.boxes)
    for move in plan:
        state = _moved(room.floor, state, MOVES[move]) or state
        if state[1] == room.targets:
            return True
    return False


def _moved(
    floor: frozenset[Cell], state: tuple[Cell, tuple[Cell, ...]], step: Cell
) -> tuple[Cell, tuple[Cell, ...]] | None:
    """Returns the state after a step, as Room.moved, without building a Room in the search's inner loop; None if
    blocked.
    """
    player, boxes = state
    ahead = shift(player, step)
    if ahead not in floor:
        return None
    if ahead not in boxes:
        return ahead, boxes
    behind = shift(ahead, step)
    if behind not in floor or behind in boxes:
        return None
    return ahead, tuple(sorted(behind if box == ahead else box for box in boxes))


def _path(
    parents: dict[tuple[Cell, tuple[Cell, ...]], tuple[tuple[Cell, tuple[Cell, ...]], str] | None],
    state: tuple[Cell, tuple[Cell, ...]],
) -> tuple[str, ...]:
    moves: list[str] = []
    while (parent := parents[state]) is not None:
        state, move = parent
        moves.append(move)
    return tuple(reversed(moves))
