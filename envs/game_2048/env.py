"""2048: slide and merge until a tile is large enough."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from functools import lru_cache
from itertools import cycle
from typing import ClassVar

import gymnasium as gym
import numpy as np

from ragen_envs.game_2048.board import MOVES, SIDE, Board, good_move, key, moved, spawned, start_board, stuck
from ragen_envs.spaces import MAX_STATE, AnyText
from ragen_envs.splits import Split, draw_instance
from ragen_envs.task import TextTask, chance_seed, check_pool_size, read_options
from ragen_envs.tree import Tree

_REWARD_SCALE = 0.1
"""Reward per log2 point of a merge: chosen freely, so that returns are of the order of 1, as in the other tasks."""
_IDLE_REWARD = -0.1
"""Reward of a move that changes nothing: as much as the default format penalty."""
_MOVE_BY_NAME = {name.lower(): index for index, name in enumerate(MOVES)}
_CYCLE = 4
"""Moves of a blind plan, repeated to the end: chosen freely, so that each direction fits in once."""


class Game2048Env(TextTask[int]):
    """0.1 · log2(merged tile + 1) per merge, −0.1 for a move that changes nothing; the goal is a tile.

    The episode ends with that tile, or when no move is left. The instance is the board at the start; `outcome_seed`
    decides where new tiles appear.

    Args:
        goal_tile: a power of 2 from 16 to 65,536.
        warm_up: random moves before the episode, so that there are many different boards to start from.
        pool_size: instances per split that seeds are mapped to (seed modulo pool_size); None: no bound.

    Raises:
        ValueError: a setting out of its range.
    """

    title: ClassVar[str] = "2048"
    best_how: ClassVar[str] = "expectimax over two moves, played once (a lower bound)"
    default_limits: ClassVar[Mapping[str, int]] = {"max_turns": 13, "max_actions_per_turn": 5, "max_actions": 65}

    def __init__(
        self,
        goal_tile: int = 128,
        warm_up: int = 8,
        pool_size: int | None = None,
        render_mode: str | None = "ansi",
    ) -> None:
        if goal_tile not in [2**power for power in range(4, 17)]:
            raise ValueError(f"goal_tile must be a power of 2 from 16 to 65536, got {goal_tile}")
        if not 0 <= warm_up <= 100:
            raise ValueError(f"warm_up must be 0…100, got {warm_up}")
        check_pool_size(pool_size)
        self.render_mode = render_mode
        self.action_space = gym.spaces.Discrete(len(MOVES))
        self.observation_space = AnyText(MAX_STATE)
        self.goal_tile = goal_tile
        self._warm_up = warm_up
        self._pool_size = pool_size
        self._start: Board | None = None
        self._board: Board = ()
        self._outcome_rng = np.random.default_rng(0)
        self._moves_to_goal: dict[tuple[int, ...], float] = {}

    @property
    def board(self) -> Board:
        """The current board. Raises ResetNeeded before the first reset."""
        if self._start is None:
            raise gym.error.ResetNeeded("call reset() first")
        return self._board

    def rules(self) -> str:
        """Returns the task in words."""
        return (
            f"You play 2048: make a tile of {self.goal_tile}. A move slides all tiles of the 4×4 board to one side; "
            "equal tiles that meet merge into their sum, each once a move; then a 2 or a 4 appears on an empty cell. "
            f"A dot is an empty cell. Actions: {', '.join(MOVES)}. A merge gives 0.1 times log2 of its tile + 1, "
            f"a move that changes nothing costs {-_IDLE_REWARD:g}. The game is lost when no move changes anything."
        )

    def describe(self) -> str:
        """Returns the board, a row a line."""
        rows = [self.board[SIDE * row : SIDE * (row + 1)] for row in range(SIDE)]
        return "\n".join(" ".join(str(tile or ".") for tile in row) for row in rows)

    def parse_action(self, text: str) -> int | None:
        """Returns the number of the move named `text` (Up, Down, Left, Right in any case), or None."""
        return _MOVE_BY_NAME.get(text.strip().lower())

    def legal_actions(self) -> list[str]:
        """Returns all four moves: one that changes nothing is legal, and costs."""
        return list(MOVES)

    def fewest_actions(self) -> int:
        """Returns the moves until the tiles can add up to goal_tile: each move adds at most 4."""
        at_most = 4 * (2 + self._warm_up)
        return max(1, math.ceil((self.goal_tile - at_most) / 4))

    @property
    def success(self) -> bool:
        """Whether a tile is as large as the goal."""
        return max(self.board) >= self.goal_tile

    @property
    def instance_key(self) -> str:
        """The board at the start in canonical form, and the goal."""
        if self._start is None:
            raise gym.error.ResetNeeded("call reset() first")
        return f"{self.goal_tile}\n{key(self._start)}"

    def solve(self) -> list[str] | None:
        """Returns the moves of expectimax to the goal with this episode's new tiles; None if it does not get there."""
        board, rng, plan = self.board, copy.deepcopy(self._outcome_rng), []
        while max(board) < self.goal_tile:
            move = good_move(board)
            if move is None:
                return None
            board = spawned(moved(board, move)[0], rng)
            plan.append(move)
        return plan

    def blind_choices(self, num_actions: int) -> tuple[int, ...]:
        """Returns four choices for each of the first moves and one for the rest, which repeats the first in a cycle."""
        return (len(MOVES),) * min(_CYCLE, num_actions) + (1,) * max(0, num_actions - _CYCLE)

    def blind_success(self, plan: tuple[int, ...]) -> float:
        """Returns 1 if cycling through the first moves of `plan` reaches the goal within its length, else 0."""
        pattern = plan[:_CYCLE]
        if pattern not in self._moves_to_goal:
            self._moves_to_goal[pattern] = self._moves_in_circles(pattern)
        return float(self._moves_to_goal[pattern] <= len(plan))

    def _moves_in_circles(self, pattern: tuple[int, ...]) -> float:
        """Returns the number of moves to the goal if `pattern` is repeated; infinity if it is never reached."""
        board, rng, idle = self.board, copy.deepcopy(self._outcome_rng), 0
        for number, index in enumerate(cycle(pattern), 1):
            after, _ = moved(board, MOVES[index])
            idle = idle + 1 if after == board else 0
            if idle == len(pattern):
                break
            board = board if idle else spawned(after, rng)
            if max(board) >= self.goal_tile:
                return number
        return math.inf

    def reset(self, *, seed: int | None = None, options: Tree | None = None) -> tuple[str, Tree]:
        """Draws the board that (seed, split) names; without a seed, one from `np_random`."""
        super().reset(seed=seed)
        split, outcome_seed = read_options(seed, options)
        seed = self._seed_or_draw(seed, self._pool_size)
        self._outcome_rng = np.random.default_rng(chance_seed(seed if outcome_seed is None else outcome_seed))
        self._moves_to_goal = {}
        self._start = self._board = _start_of(seed, split, self._warm_up, self.goal_tile)
        return self.describe(), {"instance_key": self.instance_key}

    def step(self, action: int) -> tuple[str, float, bool, bool, Tree]:
        """Plays one move. Raises ValueError for an action outside 0…3."""
        if not 0 <= int(action) < len(MOVES):
            raise ValueError(f"action must be 0…3 ({', '.join(MOVES)}), got {action}")
        after, paid = moved(self.board, MOVES[int(action)])
        if after == self.board:
            return self.describe(), _IDLE_REWARD, False, False, {}
        self._board, self._moves_to_goal = spawned(after, self._outcome_rng), {}
        return self.describe(), _REWARD_SCALE * paid, self.success or stuck(self._board), False, {}


@lru_cache(maxsize=16_384)
def _start_of(seed: int, split: Split, warm_up: int, goal_tile: int) -> Board:
    def generate(rng: np.random.Generator) -> Board | None:
        board = start_board(rng, warm_up)
        return None if board is None or max(board) >= goal_tile else board

    return draw_instance(seed, split, generate, lambda board: f"{goal_tile}\n{key(board)}")
