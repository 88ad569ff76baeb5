"""Sokoban: push every box onto a target."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar, NamedTuple

import gymnasium as gym
import numpy as np

from ragen_envs.observation import Observation, Symbols, check_observation, check_symbols, in_form
from ragen_envs.sokoban.generator import generate_room
from ragen_envs.sokoban.room import MOVES, Room
from ragen_envs.sokoban.solver import shortest_solution, solved_by
from ragen_envs.spaces import MAX_STATE, AnyText
from ragen_envs.splits import Split, draw_instance
from ragen_envs.task import TextTask, check_pool_size, read_options
from ragen_envs.tree import Tree

_STEP_REWARD = -0.1
"""Reward of each step. This and the next two are gym-sokoban's, which RAGEN uses too."""
_BOX_REWARD = 1.0
"""Reward of each box that comes onto a target; its opposite when it leaves."""
_SOLVED_REWARD = 10.0
"""… and of the last one."""
_LETTERS = str.maketrans("#_OX√PS", "W.GBDA@")
"""Cells of a grid in other symbols, in the order of `_TOLD`."""
_TOLD = {
    "plain": "# wall, _ floor, O target, X box, √ box on target, P player, S player on target",
    "letters": "W wall, . floor, G target, B box, D box on target, A player, @ player on target",
}
_MOVE_BY_NAME = {name.lower(): index for index, name in enumerate(MOVES)}
_MOVE_NAMES = tuple(MOVES)


class SokobanEnv(TextTask[int]):
    """−0.1 per action, +1 / −1 when a box gets on / off a target, +10 when all are on; then the episode ends.

    Args:
        height, width: cells, walls included (≥ 4).
        num_boxes: boxes, as many targets.
        observation: what `describe` tells: the grid, coordinates, or both (RAGEN-2's default).
        symbols: what cells of the grid are written with; `letters` asks whether a policy reads the rules.
        min_solution_steps, max_solution_steps: range of the shortest solution's length; None: no bound.
        pool_size: instances per split that seeds are mapped to (seed modulo pool_size); None: no bound.

    Raises:
        ValueError: a size, count or range that allows no room.
    """

    title: ClassVar[str] = "Sokoban"

    def __init__(
        self,
        *,
        height: int = 6,
        width: int = 6,
        num_boxes: int = 1,
        observation: Observation = "both",
        symbols: Symbols = "plain",
        min_solution_steps: int | None = None,
        max_solution_steps: int | None = None,
        pool_size: int | None = None,
        render_mode: str | None = "ansi",
    ) -> None:
        if height < 4 or width < 4 or num_boxes < 1:
            raise ValueError(f"need height, width ≥ 4 and num_boxes ≥ 1, got {height}, {width}, {num_boxes}")
        check_observation(observation)
        check_symbols(symbols)
        check_pool_size(pool_size)
        if max_solution_steps is not None and max_solution_steps < max(1, min_solution_steps or 1):
            raise ValueError(f"empty range of solution steps: {min_solution_steps}…{max_solution_steps}")
        self.observation = observation
        self.symbols = symbols
        self.render_mode = render_mode
        self.action_space = gym.spaces.Discrete(len(MOVES))
        self.observation_space = AnyText(MAX_STATE)
        self._wanted = _Wanted(height, width, num_boxes, min_solution_steps, max_solution_steps)
        self._pool_size = pool_size
        self._start: Room | None = None
        self._room: Room | None = None

    @property
    def room(self) -> Room:
        """The current position. Raises ResetNeeded before the first reset."""
        if self._room is None:
            raise gym.error.ResetNeeded("call reset() first")
        return self._room

    @room.setter
    def room(self, room: Room) -> None:
        self._room = room

    def rules(self) -> str:
        """Returns the task in words."""
        symbols = _TOLD[self.symbols]
        where = "rows and columns are counted from 0 at the top left"
        told = {"grid": symbols, "coordinates": f"Coordinates are row column; {where}", "both": f"{symbols}; {where}"}
        return (
            "You play Sokoban: push every box onto a target. Moving into a box pushes it if the cell behind is free; "
            f"boxes cannot be pulled. {told[self.observation]}. Actions: {', '.join(MOVES)}. "
            "Each action costs 0.1, a box on a target gives 1, all boxes on targets give 10."
        )

    def describe(self) -> str:
        """Returns the state in the chosen observation form."""
        return _told(self.observation, self.symbols, self.room)

    def parse_action(self, text: str) -> int | None:
        """Returns the number of the move named `text` (Up, Down, Left, Right in any case), or None."""
        return _MOVE_BY_NAME.get(text.strip().lower())

    def legal_actions(self) -> list[str]:
        """Returns all four moves: a blocked one is legal and does nothing."""
        return list(MOVES)

    @property
    def success(self) -> bool:
        """Whether all boxes stand on targets."""
        return self.room.solved

    @property
    def instance_key(self) -> str:
        """The start position's canonical form: see Room.key."""
        if self._start is None:
            raise gym.error.ResetNeeded("call reset() first")
        return self._start.key

    def solve(self) -> list[str] | None:
        """Returns a shortest solution from here."""
        solution = shortest_solution(self.room)
        return None if solution is None else list(solution)

    def blind_success(self, plan: tuple[int, ...]) -> float:
        """Returns 1 if the moves numbered in `plan` solve the room, else 0."""
        return float(solved_by(self.room, tuple(_MOVE_NAMES[index] for index in plan)))

    def reset(self, *, seed: int | None = None, options: Tree | None = None) -> tuple[str, Tree]:
        """Draws the room that (seed, split) names; without a seed, one from `np_random`."""
        super().reset(seed=seed)
        split, _ = read_options(seed, options)
        seed = self._seed_or_draw(seed, self._pool_size)
        self._start = self._room = _room_of(seed, split, self._wanted)
        return self.describe(), {"instance_key": self.instance_key}

    def step(self, action: int) -> tuple[str, float, bool, bool, Tree]:
        """Makes one move. Raises ValueError for an action outside 0…3."""
        if not 0 <= int(action) < len(_MOVE_NAMES):
            raise ValueError(f"action must be 0…3 ({', '.join(_MOVE_NAMES)}), got {action}")
        before = self.room
        self._room = before.moved(_MOVE_NAMES[int(action)])
        gained = self.room.boxes_on_targets - before.boxes_on_targets
        reward = _STEP_REWARD + _BOX_REWARD * gained + (_SOLVED_REWARD if self.room.solved else 0.0)
        return self.describe(), reward, self.room.solved, False, {}


# The members of a group, and the actions of a turn, pass through the same positions.
@lru_cache(maxsize=16_384)
def _told(form: Observation, symbols: Symbols, room: Room) -> str:
    grid = room.grid() if symbols == "plain" else room.grid().translate(_LETTERS)
    return in_form(form, grid, room.coordinates())


def _key_of(room: Room) -> str:
    return room.key


class _Wanted(NamedTuple):
    """The settings that a room must meet."""

    height: int
    width: int
    num_boxes: int
    min_steps: int | None
    max_steps: int | None


@lru_cache(maxsize=16_384)
def _room_of(seed: int, split: Split, wanted: _Wanted) -> Room:
    def generate(rng: np.random.Generator) -> Room | None:
        room = generate_room(rng, wanted.height, wanted.width, wanted.num_boxes)
        if room is None or (wanted.min_steps is None and wanted.max_steps is None):
            return room
        solution = shortest_solution(room, wanted.max_steps or 100)
        return room if solution is not None and len(solution) >= (wanted.min_steps or 0) else None

    return draw_instance(seed, split, generate, _key_of)
