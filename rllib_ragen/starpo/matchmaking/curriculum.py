"""Which level of difficulty a group is played at: chosen by recent success, and remembered in checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ragen_envs.seeds import Stream, generator
from ragen_envs.tree import Tree
from rllib_ragen.config.curriculum import CurriculumSection


class Curriculum:
    """The levels of one environment: how many are open, and how well each went lately.

    A run begins with the first level. The next one opens when the highest open one has had a full window of groups with
    a mean success ≥ `raise_at`; opened levels stay open. An open level whose recent success is between `low` and
    `high`, or that has not had a window yet, is drawn with weight 1; one that is too hard for now or learnt with
    weight `outside`: seldom, so that it is noticed when that changes. So a policy that fails at the newest level goes
    back to the one before by itself.

    After the difficulty pools of prime-rl (easy, normal and hard problems, by recent reward) and the reward-variance
    filter of RAGEN-2 (arXiv 2604.06268): groups whose members all succeed or all fail teach nothing.
    """

    def __init__(self, section: CurriculumSection) -> None:
        self._section = section
        self.open = 1
        """Levels that may be drawn: the first `open` ones."""
        self._recent: list[list[float]] = [[] for _ in section.levels]
        """Mean success of each level's last groups, oldest first."""

    @property
    def num_levels(self) -> int:
        """All levels, open or not."""
        return len(self._recent)

    def success(self, level: int) -> float:
        """Returns the mean success of the level's recent groups; NaN if it has had none."""
        recent = self._recent[level]
        return sum(recent) / len(recent) if recent else float("nan")

    def shares(self) -> list[float]:
        """Returns the chance of each level to be drawn; they add up to 1."""
        weights = [self._weight(level) for level in range(self.open)] + [0.0] * (self.num_levels - self.open)
        return [weight / sum(weights) for weight in weights]

    def draw(self, run_seed: int, env: int, group: int) -> int:
        """Draws the level of a group, by the state as it is now and a seed of the group's own.

        Args:
            run_seed: ≥ 0.
            env: index of the environment in the run.
            group: number of the group in the run.
        """
        drawn = generator(Stream.CURRICULUM_LEVEL, run_seed, env, group).random()
        return min(int(np.searchsorted(np.cumsum(self.shares()), drawn, side="right")), self.open - 1)

    def note(self, played: Sequence[tuple[int, float]]) -> None:
        """Takes note of groups, as (level, mean success), in the order of their numbers; may open one level."""
        for level, success in played:
            self._recent[level] = [*self._recent[level], success][-self._section.window :]
        highest = self.open - 1
        if self.open < self.num_levels and self._is_known(highest) and self.success(highest) >= self._section.raise_at:
            self.open += 1

    def metrics(self, played: Sequence[tuple[int, float]]) -> dict[str, float]:
        """Returns how many levels are open and, by level, how many of the groups `played` were at it and its recent
        success.
        """
        found = {"levels_open": float(self.open)}
        for level in range(self.num_levels):
            found[f"level_{level + 1}_groups"] = float(sum(at == level for at, _ in played))
            found[f"level_{level + 1}_success"] = self.success(level)
        return found

    def state(self) -> Tree:
        """Returns what a checkpoint needs."""
        return {"open": self.open, "recent": [list(recent) for recent in self._recent]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Takes what `state` gave. Raises ValueError if it is of other levels."""
        if len(state["recent"]) != self.num_levels:
            raise ValueError(
                f"curriculum.levels: {self.num_levels} here, but the checkpoint's run had {len(state['recent'])}"
            )
        self.open, self._recent = int(state["open"]), [list(recent) for recent in state["recent"]]

    def _weight(self, level: int) -> float:
        section = self._section
        useful = not self._is_known(level) or section.low <= self.success(level) <= section.high
        return 1.0 if useful else section.outside

    def _is_known(self, level: int) -> bool:
        return len(self._recent[level]) >= self._section.window
