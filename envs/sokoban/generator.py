"""Sokoban rooms: a random walk paints the floor, then the solved room is played backwards.

Every room is solvable by construction, and all randomness comes from the generator that is passed in.
"""

from __future__ import annotations

import numpy as np

from ragen_envs.sokoban.room import MOVES, Cell, Room, shift

# 3×3 brushes of the random walk: which neighbours of the walker become floor.
_BRUSHES: tuple[tuple[Cell, ...], ...] = (
    ((0, -1), (0, 0), (0, 1)),
    ((-1, 0), (0, 0), (1, 0)),
    ((0, -1), (0, 0), (1, 0)),
    ((0, -1), (0, 0), (1, -1), (1, 0)),
    ((0, 0), (0, 1), (1, 0)),
)
_TURN_PROBABILITY = 0.35
"""Chance that the walk turns, as in gym-sokoban."""
_MAX_POSITIONS = 5_000
"""Most positions of the backward search: chosen freely; a 6×6 room with one box has at most 16 · 15 = 240."""


def generate_room(rng: np.random.Generator, height: int, width: int, num_boxes: int) -> Room | None:
    """Draws one room; returns None if the draw was unfit (too little floor, or a box could not be pulled away)."""
    floor = _paint_floor(rng, height, width)
    if len(floor) <= num_boxes + 1:
        return None
    places = rng.permutation(len(floor))[: num_boxes + 1]
    player, *boxes = (floor[i] for i in places)
    targets = tuple(sorted(boxes))
    solved = Room(height, width, frozenset(floor), targets, targets, player)
    started = _play_backwards(rng, solved)
    return None if started is None else _walk(rng, started, steps=int(rng.integers(1, 4)))


def _paint_floor(rng: np.random.Generator, height: int, width: int) -> list[Cell]:
    """Returns the sorted floor cells of a random walk of 1.7·(h + w) steps; the border stays wall."""
    steps = list(MOVES.values())
    row, column = int(rng.integers(1, height - 1)), int(rng.integers(1, width - 1))
    direction = steps[int(rng.integers(4))]
    floor: set[Cell] = set()
    for _ in range(int(1.7 * (height + width))):
        if rng.random() < _TURN_PROBABILITY:
            direction = steps[int(rng.integers(4))]
        row = min(max(row + direction[0], 1), height - 2)
        column = min(max(column + direction[1], 1), width - 2)
        brush = _BRUSHES[int(rng.integers(len(_BRUSHES)))]
        floor.update(shift((row, column), offset) for offset in brush)
    return sorted((r, c) for r, c in floor if 0 < r < height - 1 and 0 < c < width - 1)


def _play_backwards(rng: np.random.Generator, solved: Room) -> Room | None:
    """Returns the reachable start with the largest (box swaps × displacement), by depth-first search over steps and
    pulls.

    A swap is a pull of another box than the last one; displacement is the boxes' Manhattan distance to where they
    stood. Each box must have left its target. Returns None if there is no such start.
    """
    home = solved.boxes
    moves = [list(MOVES.values())[i] for i in rng.permutation(4)]
    best, best_score = None, 0
    # A position: player, boxes in home order (box i belongs to home[i]), last box pulled, swaps so far.
    stack: list[tuple[Cell, tuple[Cell, ...], int, int]] = [(solved.player, home, -1, 0)]
    seen = {(solved.player, home)}
    while stack and len(seen) < _MAX_POSITIONS:
        player, boxes, last_box, swaps = stack.pop()
        distances = [abs(a[0] - b[0]) + abs(a[1] - b[1]) for a, b in zip(boxes, home, strict=True)]
        score = swaps * sum(distances)
        if score > best_score and not set(boxes) & set(home):
            best, best_score = (player, boxes), score
        for step in moves:
            ahead = shift(player, step)
            if ahead not in solved.floor or ahead in boxes:
                continue
            options = [(boxes, last_box, swaps)]
            behind = shift(player, (-step[0], -step[1]))
            if behind in boxes:
                pulled = boxes.index(behind)
                dragged = (*boxes[:pulled], player, *boxes[pulled + 1 :])
                options.append((dragged, pulled, swaps + (pulled != last_box)))
            for following in options:
                if (ahead, following[0]) not in seen:
                    seen.add((ahead, following[0]))
                    stack.append((ahead, *following))
    if best is None:
        return None
    return Room(solved.height, solved.width, solved.floor, solved.targets, tuple(sorted(best[1])), best[0])


def _walk(rng: np.random.Generator, room: Room, steps: int) -> Room:
    """Returns the room after up to `steps` random steps that push nothing."""
    for _ in range(steps):
        free = [after for move in MOVES if (after := room.moved(move)) != room and after.boxes == room.boxes]
        if not free:
            break
        room = free[int(rng.integers(len(free)))]
    return room
