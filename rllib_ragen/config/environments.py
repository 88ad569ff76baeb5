"""The environments of a run, one or several, each as a config of its own: what holds for one alone holds for each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ragen_envs.tree import Tree
from rllib_ragen.config.curriculum import CurriculumSection
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import merge
from rllib_ragen.config.schema import EntrySection, EnvSection, RunConfig
from rllib_ragen.config.task_names import name_of_id, task_word

_OF_AN_ENTRY = EntrySection.model_fields.keys() - EnvSection.model_fields.keys()
_OF_A_LEVEL = ("max_turns", "max_actions_per_turn", "max_actions")


@dataclass(frozen=True)
class World:
    """One environment of a run."""

    label: str
    """Name that its metrics begin with; empty: it is the only one."""
    weight: float
    """Share of the groups, relative to the others'."""
    levels: tuple[RunConfig, ...]
    """Config of each level as if it were all of the run, from the easiest to the target; only one without a
    curriculum."""
    curriculum: CurriculumSection | None

    @property
    def target(self) -> RunConfig:
        """Config of the level that the run is about."""
        return self.levels[-1]

    @property
    def target_level(self) -> int:
        """Index of that level; −1 without a curriculum."""
        return -1 if self.curriculum is None else len(self.levels) - 1


@dataclass(frozen=True)
class Exam:
    """What an evaluation plays: an environment, at its target level or at an earlier one."""

    path: str
    """Beginning of its metrics' names, but for the slash: `sokoban`, `sokoban/level_1`; empty: the only one."""
    world: World
    level: int
    """Index into the world's levels."""

    @property
    def config(self) -> RunConfig:
        """Config as if it were all of the run."""
        return self.world.levels[self.level]

    @property
    def is_target(self) -> bool:
        """Whether the run is judged by it."""
        return self.level == len(self.world.levels) - 1


def worlds(config: RunConfig) -> tuple[World, ...]:
    """Returns the environments of a run, in their order."""
    if not config.envs:
        return (_world("", 1.0, config),)
    return tuple(_world(label_of(entry), entry.weight, alone(config, entry)) for entry in config.envs)


def exams(of: Sequence[World]) -> list[Exam]:
    """Returns what validation and test play: of each world its target, and with `eval_levels: all` each level after
    it.
    """
    found = []
    for world in of:
        last = len(world.levels) - 1
        found.append(Exam(world.label, world, last))
        if world.curriculum is not None and world.curriculum.eval_levels == "all":
            found += [Exam(f"{world.label}/level_{k + 1}".lstrip("/"), world, k) for k in range(last)]
    return found


def is_mixed(of: Sequence[World]) -> bool:
    """Says whether episodes differ in their environment or its level."""
    return len(of) > 1 or any(world.curriculum is not None for world in of)


def reply_limits(of: Sequence[World], usual: int) -> dict[str, int]:
    """Returns the tokens that a reply may take, by the environment's label; `usual` where there are no worlds."""
    return {world.label: world.target.rollout.max_reply_tokens for world in of} or {"": usual}


def label_of(entry: EntrySection) -> str:
    """Says what an entry's metrics begin with: its label, or a word for its environment. Imports nothing."""
    return entry.label or re.sub(r"[^\w.-]", "_", (name_of_id(entry.name) or entry.name).rpartition(":")[2])


def alone(config: RunConfig, entry: EntrySection) -> RunConfig:
    """Returns the config of a run of nothing but `entry`."""
    env = EnvSection.model_validate(entry.model_dump(exclude=set(_OF_AN_ENTRY)))
    tokens = entry.max_reply_tokens or config.rollout.max_reply_tokens
    rollout = config.rollout.model_copy(update={"max_reply_tokens": tokens})
    return config.model_copy(update={"env": env, "envs": [], "rollout": rollout})


def environments_told(config: RunConfig) -> str:
    """Names the run's environments for people: `sokoban`, `sokoban, frozen_lake`. Imports nothing."""
    return ", ".join(label_of(entry) for entry in config.envs) or config.env.name


def environments_word(config: RunConfig) -> str:
    """Says what files may be called after the run's environments: `sokoban`, `sokoban-frozen_lake`,
    `sokoban-and-4-more`.
    """
    if not config.envs:
        return task_word(config.env.name)
    first, *others = [world.label for world in worlds(config)]
    return "-".join([first, *others] if len(others) < 2 else [first, "and", str(len(others)), "more"])


def picked(config: RunConfig, label: str | None) -> RunConfig:
    """Returns the config of a run of nothing but the environment called `label`, at its target level; None: the only
    environment.

    Raises:
        ConfigError: there is none of that name, or there are several and none is named.
    """
    found = worlds(config)
    if label is None and len(found) == 1:
        return found[0].target
    chosen = [world for world in found if world.label == label]
    if not chosen:
        asked = "is not given" if label is None else f"{label} is none of the run's"
        allowed = ", ".join(world.label for world in found)
        raise ConfigError(f"--env {asked}: the run has several environments; allowed: {allowed}")
    return chosen[0].target


def without_label(config: RunConfig, given: Tree) -> tuple[Tree, str | None]:
    """Returns (what was `given` over a saved run but for `--env`, the label that it names).

    In a run of several environments `--env LABEL` chooses one; in any other it is `env.name`, and no label.

    Raises:
        ConfigError: no environment of that label.
    """
    env = given.get("env", {})
    if not config.envs or "name" not in env:
        return given, None
    label = str(env["name"])
    picked(config, label)
    rest = {key: value for key, value in env.items() if key != "name"}
    return {key: value for key, value in given.items() if key != "env"} | ({"env": rest} if rest else {}), label


def _world(label: str, weight: float, config: RunConfig) -> World:
    curriculum = config.env.curriculum
    levels = [config] if curriculum is None else [_at_level(config, k) for k in range(len(curriculum.levels))]
    return World(label, weight, tuple(levels), curriculum)


def _at_level(config: RunConfig, number: int) -> RunConfig:
    assert config.env.curriculum is not None
    level = config.env.curriculum.levels[number]
    own = {key: value for key in _OF_A_LEVEL if (value := getattr(level, key)) is not None}
    changed = own | {"task": merge(config.env.task, level.task), "curriculum": None}
    return config.model_copy(update={"env": config.env.model_copy(update=changed)})
