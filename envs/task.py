"""TextTask: a Gymnasium environment that can describe itself in words."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import gymnasium as gym
import numpy as np

from ragen_envs.seeds import Stream, seed_of
from ragen_envs.splits import Split
from ragen_envs.tree import Tree

ActionT = TypeVar("ActionT")


class TextTask(gym.Env[Any, ActionT], Generic[ActionT]):
    """Rules and rewards of one task, without tokens, prompts or replies.

    Any Gymnasium agent can play it through `step` with structured actions. `TextEnv` adds the language.

    `reset(seed=…, options=…)` takes two options:
      split: "train" | "val" | "test" (default "train"). Instances are split by their content, so the three
        sets never share one, whatever the seeds.
      outcome_seed: int, seeds the chance *inside* an episode (slips, arm pay-outs), so that the members of a
        group share the instance but not its chance. Default: the same as `seed`.
    """

    metadata: Tree = {"render_modes": ["ansi"]}  # noqa: RUF012 - Gymnasium declares it so
    title: ClassVar[str]
    """The prompt in brief style, a word; also the name in tables."""
    best_how: ClassVar[str] = "shortest solution within the caps"
    """Description for tables of how `best_success` is computed."""
    default_limits: ClassVar[Mapping[str, int]] = {}
    """Caps that differ from the defaults of TextLimits, for a task that these do not fit."""

    actions_in_words: ClassVar[bool] = False
    """Whether `rules` tells the actions in words ("any letter") rather than naming each, as `certify` asks for."""

    @abstractmethod
    def rules(self) -> str:
        """Returns the task in a few sentences: symbols, actions, rewards, goal. Shown once, in the full prompt
        style.
        """

    @abstractmethod
    def describe(self) -> str:
        """Returns the current state as text."""

    @abstractmethod
    def parse_action(self, text: str) -> ActionT | None:
        """Returns the structured action that `text` names (case-insensitively), or None; never raises."""

    @abstractmethod
    def legal_actions(self) -> list[str]:
        """Returns the names of the actions that can be taken now; empty if the action is free text."""

    @property
    @abstractmethod
    def success(self) -> bool:
        """Whether the goal is reached in the current state."""

    @property
    @abstractmethod
    def instance_key(self) -> str:
        """Canonical text of the instance: equal keys mean the same instance. It decides the split."""

    def solve(self) -> list[str] | None:
        """Returns the actions of a solution from here, which reach the goal if chance allows; None if there is none."""
        raise NotImplementedError(f"{self.title} has no solver")

    def fewest_actions(self) -> int:
        """Returns the fewest actions that any success takes, whatever the instance; tighter caps are refused."""
        return 1

    def random_action(self, rng: np.random.Generator) -> str:
        """Returns a legal action's name, uniformly at random."""
        legal = self.legal_actions()
        if not legal:
            raise NotImplementedError(f"{self.title} has no random actions")
        return legal[int(rng.integers(len(legal)))]

    def best_success(self, max_turns: int, max_actions_per_turn: int, max_actions: int) -> float:
        """Returns the best policy's chance of success from here under the caps.

        The default assumes deterministic moves, and that `solve` returns a shortest solution.
        """
        solution = self.solve()
        return float(solution is not None and len(solution) <= min(max_actions, max_turns * max_actions_per_turn))

    def blind_choices(self, num_actions: int) -> tuple[int, ...]:
        """Returns the number of choices at each step of a blind plan, one that ignores the state, of `num_actions`."""
        return (len(self.legal_actions()),) * num_actions

    def blind_success(self, plan: tuple[int, ...]) -> float:
        """Returns the chance of success of `plan` (indices into the choices of `blind_choices`) from here."""
        raise NotImplementedError(f"{self.title} has no blind plans")

    def _seed_or_draw(self, seed: int | None, pool_size: int | None = None) -> int:
        """Returns `seed`, or one from `np_random` if there is none; modulo `pool_size` if there is one."""
        if seed is None:
            seed = int(self.np_random.integers(2**31))
        return seed if pool_size is None else seed % pool_size

    def render(self) -> str:  # type: ignore[override]
        """Returns the state as text (render mode "ansi")."""
        return self.describe()


class FreeTextTask(TextTask[str]):
    """A task whose actions are free text, which cannot be listed."""

    def legal_actions(self) -> list[str]:
        """Returns an empty list."""
        return []

    @abstractmethod
    def random_action(self, rng: np.random.Generator) -> str:
        """Returns a random action, for the baseline of random play."""


def read_options(seed: int | None, options: Tree | None) -> tuple[Split, int | None]:
    """Returns (split, outcome seed) of a `reset` call.

    Raises:
        ValueError: an unknown option or split.
    """
    options = dict(options or {})
    split = Split.parse(options.pop("split", "train"))
    outcome_seed = options.pop("outcome_seed", seed)
    if options:
        raise ValueError(f"unknown reset option {sorted(options)[0]!r}; allowed: split, outcome_seed")
    return split, outcome_seed


def check_pool_size(pool_size: int | None) -> None:
    """Raises ValueError unless `pool_size` is a positive number of instances, or None for no bound."""
    if pool_size is not None and pool_size < 1:
        raise ValueError(f"pool_size must be ≥ 1 or None, got {pool_size}")


def chance_seed(outcome_seed: int) -> int:
    """Returns the seed of the chance inside an episode.

    It differs from the seed of the instance even if `outcome_seed` equals it: else chance would be a function of the
    map.

    Raises:
        ValueError: a negative seed.
    """
    if outcome_seed < 0:
        raise ValueError(f"outcome_seed must be ≥ 0, got {outcome_seed}")
    return seed_of(Stream.CHANCE, outcome_seed)


AnyTask: TypeAlias = TextTask[Any]
"""A task with any kind of actions."""
