"""Several text environments behind one door: each episode says which of them it plays, and at which level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym

from ragen_envs.registry import make_text_env
from ragen_envs.spaces import AnyText
from ragen_envs.text import TextEnv
from ragen_envs.tree import Tree


class SeveralTextEnvs(gym.Env[str, str]):
    """Plays as the TextEnv that `reset` chose, to the letter; each is made when it is first chosen.

    `reset(options=…)` understands beside those of TextTask:
      env: the environment's label. Default: the first.
      level: index into its levels. Default: the last.
    """

    metadata: Tree = {"render_modes": ["ansi"]}  # noqa: RUF012 - Gymnasium declares it so

    def __init__(self, worlds: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        """`worlds`: label → for each level what `make_text_env` takes: name, task, limits.

        Raises:
            ValueError: no environment, or one without levels.
        """
        if not worlds or not all(worlds.values()):
            raise ValueError("worlds must name at least one environment, each with at least one level")
        self._worlds = {label: tuple(levels) for label, levels in worlds.items()}
        self._made: dict[tuple[str, int], TextEnv] = {}
        self._current: TextEnv | None = None
        self.observation_space = AnyText()
        self.action_space = AnyText()

    @property
    def current(self) -> TextEnv:
        """The environment that is played. Raises gym.error.ResetNeeded before the first `reset`."""
        if self._current is None:
            raise gym.error.ResetNeeded("no environment is chosen yet: call reset()")
        return self._current

    @property
    def system_prompt(self) -> str:
        """That of the environment that is played."""
        return self.current.system_prompt

    @property
    def max_turns(self) -> int:
        """Turns that the longest episode of any environment may take."""
        limits = [one.get("limits") or {} for levels in self._worlds.values() for one in levels]
        return max(int(one.get("max_turns", 1)) for one in limits)

    def make_all(self) -> None:
        """Makes every environment at every level, to see that it can be made. Raises whatever one of them does."""
        for label, levels in self._worlds.items():
            for level in range(len(levels)):
                self._env(label, level)

    def reset(self, *, seed: int | None = None, options: Tree | None = None) -> tuple[str, Tree]:
        """Starts an episode of the environment that `options` name.

        Raises:
            ValueError: there is none of that label, or level.
        """
        super().reset(seed=seed)
        given = dict(options or {})
        label = given.pop("env", next(iter(self._worlds)))
        if label not in self._worlds:
            raise ValueError(f"unknown environment {label!r}; allowed: {', '.join(self._worlds)}")
        levels = len(self._worlds[label])
        level = given.pop("level", levels - 1)
        if level not in range(levels):
            raise ValueError(f"level must be 0 to {levels - 1}, got {level!r}")
        self._current = self._env(label, level)
        return self._current.reset(seed=seed, options=given)

    def step(self, action: str) -> tuple[str, float, bool, bool, Tree]:
        """Plays one turn. Raises gym.error.ResetNeeded before the first `reset` and after the end."""
        return self.current.step(action)

    def render(self) -> str:  # type: ignore[override]
        """Returns the state as text."""
        return self.current.render()

    def close(self) -> None:
        """Closes all that were made."""
        while self._made:
            self._made.popitem()[1].close()
        self._current = None

    def _env(self, label: str, level: int) -> TextEnv:
        if (label, level) not in self._made:
            self._made[label, level] = make_text_env(**self._worlds[label][level])
        return self._made[label, level]
