"""The instances that an evaluation plays: so many of a split, all different."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice

from ragen_envs.games.game import TextGame
from ragen_envs.games.registry import game_names, is_users_game, make_game
from ragen_envs.registry import make_task
from ragen_envs.splits import Split, distinct_numbers, instance_seed
from ragen_envs.task import AnyTask


def evaluated_numbers(name: str | None, settings: Mapping[str, object], split: str, count: int) -> list[int]:
    """Returns the numbers (see `instance_seed`) of the first `count` different instances of a split, or of all if
    fewer.

    Args:
        name: short name of a task or game; None: a foreign environment, whose instances have no keys and count as
            different.
        settings: settings of the task or game.
        split: name of the split.
        count: number of instances wanted.

    Raises:
        ValueError: an unknown split, name or setting.
    """
    key_of = _key_function(name, settings, Split.parse(split))
    return list(range(count)) if key_of is None else list(islice(distinct_numbers(key_of), count))


def _key_function(name: str | None, settings: Mapping[str, object], split: Split) -> Callable[[int], str] | None:
    """Returns the function from an instance's number to its key; None if instances have no keys, or no splits."""
    if name is None:
        return None
    if name not in game_names() and not is_users_game(name):
        return partial(_task_key, make_task(name, **settings), split)
    game = make_game(name, **settings)
    return partial(_game_key, game, split) if game.has_splits else None


def _task_key(task: AnyTask, split: Split, number: int) -> str:
    task.reset(seed=instance_seed(split, number), options={"split": split})
    return task.instance_key


def _game_key(game: TextGame, split: Split, number: int) -> str:
    seed = instance_seed(split, number)
    game.reset(seed, split, seed)
    return game.instance_key
