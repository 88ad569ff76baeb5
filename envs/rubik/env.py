"""Rubik's cube 2×2×2: turn faces until each has one colour."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import ClassVar

import gymnasium as gym

from ragen_envs.rubik.cube import FACES, TURNS, Cube, is_solved, key, scrambled, shortest_solution, turned
from ragen_envs.spaces import MAX_STATE, AnyText
from ragen_envs.splits import Split, draw_instance
from ragen_envs.task import TextTask, check_pool_size, read_options
from ragen_envs.tree import Tree

_SOLVED_REWARD = 1.0
"""Reward of the turn that solves the cube; no other turn is rewarded."""
_TURN_NAMES = tuple(TURNS)
_TURN_BY_NAME = {name.lower(): index for index, name in enumerate(_TURN_NAMES)}
_FEWEST_TURNS, _MOST_TURNS = 5, 9
"""Range of scramble_turns: 4 turns give 17 different cubes (5: 59), too few for three splits. The upper end is chosen
freely, because the solver's time grows about fourfold with each turn.
"""
_FACE_WORDS = {"U": "up", "F": "front", "R": "right", "B": "back", "L": "left", "D": "down"}


class RubikEnv(TextTask[int]):
    """1 when the cube is solved, which ends the episode; every other turn gives 0.

    Args:
        scramble_turns: length of the shortest solution in quarter turns, 5…9.
        pool_size: instances per split that seeds are mapped to (seed modulo pool_size); None: no bound.

    Raises:
        ValueError: a setting out of its range.
    """

    title: ClassVar[str] = "Rubik"
    default_limits: ClassVar[Mapping[str, int]] = {"max_turns": 5, "max_actions_per_turn": 4, "max_actions": 20}

    def __init__(self, scramble_turns: int = 5, pool_size: int | None = None, render_mode: str | None = "ansi") -> None:
        if not _FEWEST_TURNS <= scramble_turns <= _MOST_TURNS:
            raise ValueError(f"scramble_turns must be {_FEWEST_TURNS}…{_MOST_TURNS}, got {scramble_turns}")
        check_pool_size(pool_size)
        self.render_mode = render_mode
        self.action_space = gym.spaces.Discrete(len(TURNS))
        self.observation_space = AnyText(MAX_STATE)
        self._scramble_turns = scramble_turns
        self._pool_size = pool_size
        self._start: Cube | None = None
        self._cube: Cube = ()

    @property
    def cube(self) -> Cube:
        """The current cube. Raises ResetNeeded before the first reset."""
        if self._start is None:
            raise gym.error.ResetNeeded("call reset() first")
        return self._cube

    def rules(self) -> str:
        """Returns the task in words."""
        faces = ", ".join(f"{letter} {word}" for letter, word in _FACE_WORDS.items())
        return (
            "Solve a 2×2×2 Rubik's cube: each face gets one colour. The state tells each face "
            f"({faces}) by its two rows of colours, upper row first, as in the net: U above F, D below F, L, R and B "
            "beside F. An action turns a face by a quarter, clockwise as seen from "
            f"outside, with ' counter-clockwise. Actions: {', '.join(TURNS)}. The solved cube gives {_SOLVED_REWARD:g}."
        )

    def describe(self) -> str:
        """Returns the rows of each face, a face a line."""
        faces = [self.cube[4 * index : 4 * index + 4] for index in range(len(FACES))]
        return "\n".join(f"{name}: {''.join(f[:2])} {''.join(f[2:])}" for name, f in zip(FACES, faces, strict=True))

    def parse_action(self, text: str) -> int | None:
        """Returns the number of the turn named `text` (R, or R' for counter-clockwise, in any case), or None."""
        return _TURN_BY_NAME.get(text.strip().lower())

    def legal_actions(self) -> list[str]:
        """Returns all twelve quarter turns."""
        return list(TURNS)

    def fewest_actions(self) -> int:
        """Returns the length of every instance's shortest solution."""
        return self._scramble_turns

    @property
    def success(self) -> bool:
        """Whether each face has one colour."""
        return is_solved(self.cube)

    @property
    def instance_key(self) -> str:
        """The scrambled cube in canonical form: see `ragen_envs.rubik.cube.key`."""
        if self._start is None:
            raise gym.error.ResetNeeded("call reset() first")
        return key(self._start)

    def solve(self) -> list[str] | None:
        """Returns a shortest solution from here."""
        return list(shortest_solution(self.cube))

    def blind_success(self, plan: tuple[int, ...]) -> float:
        """Returns 1 if the cube is solved after any of the turns numbered in `plan`, else 0."""
        cube = self.cube
        for index in plan:
            cube = turned(cube, _TURN_NAMES[index])
            if is_solved(cube):
                return 1.0
        return 0.0

    def reset(self, *, seed: int | None = None, options: Tree | None = None) -> tuple[str, Tree]:
        """Draws the cube that (seed, split) names; without a seed, one from `np_random`."""
        super().reset(seed=seed)
        split, _ = read_options(seed, options)
        seed = self._seed_or_draw(seed, self._pool_size)
        self._start = self._cube = _cube_of(seed, split, self._scramble_turns)
        return self.describe(), {"instance_key": self.instance_key}

    def step(self, action: int) -> tuple[str, float, bool, bool, Tree]:
        """Makes one quarter turn. Raises ValueError for an action outside 0…11."""
        if not 0 <= int(action) < len(_TURN_NAMES):
            raise ValueError(f"action must be 0…11 ({', '.join(_TURN_NAMES)}), got {action}")
        self._cube = turned(self.cube, _TURN_NAMES[int(action)])
        return self.describe(), _SOLVED_REWARD if self.success else 0.0, self.success, False, {}


@lru_cache(maxsize=16_384)
def _cube_of(seed: int, split: Split, turns: int) -> Cube:
    return draw_instance(seed, split, lambda rng: scrambled(rng, turns), key)
