"""Floor and ceiling of a success rate: random play, the best blind plan, the best possible under the caps.

A success rate means little without them: published "20 %" on Sokoban turned out to be the random level. The values of
all presets are shipped in baselines.json, which `python -m ragen_envs.baselines` makes (names behind it: of these
environments or presets only, `sokoban`, `sokoban/8x8`); others are computed when asked for and kept in the user's cache
folder.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib import resources

from ragen_envs.blind import blind_success
from ragen_envs.cache import read_cached, write_cached
from ragen_envs.policies import Clock, Score, best_success, random_success
from ragen_envs.presets import all_presets, preset_names, split_preset
from ragen_envs.registry import check_env_name, env_names, make_task
from ragen_envs.task import AnyTask
from ragen_envs.text import TextLimits
from ragen_envs.tree import Tree

RULES_VERSION = 2
"""Part of every cache key; raise it when rules or generators change, so that old values are not found again."""
SHIPPED_FILE = "baselines.json"
_PRESENTATION = frozenset({"observation", "symbols", "render_mode", "pool_size"})
"""Settings that do not change what is computed: how a state is told, and how many of its instances a run uses."""
_SHIPPED_COUNT = 256
"""Test instances behind the baselines of a shipped preset: the same ones, and as many, as a run is tested on."""
_DEMANDED_SECONDS = 5.0
"""Time limit in seconds for each of floor, blind plan and ceiling while a run waits for them: chosen freely, so that
the run begins within half a minute.
"""


@dataclass(frozen=True)
class Baselines:
    """Success rates in [0, 1] on test instances."""

    random: float
    """Uniformly random valid actions and turn sizes: the floor."""
    blind: float
    """The best plan found that ignores the state."""
    best: float
    """The best possible under the caps: the ceiling."""
    notes: dict[str, str]
    """How each of the three was computed."""


def baselines_for(name: str, task: Tree | None = None, limits: TextLimits | None = None) -> Baselines:
    """Returns the baselines of environment `name` with `task` settings under `limits`.

    Shipped values are returned at once; others take up to about half a minute the first time and are then cached.

    Raises:
        ValueError: unknown environment or setting.
        NotImplementedError: the task has no solver or no blind plans.
    """
    return _baselines_of(settings_key(name, task, limits))


def settings_key(name: str, task: Tree | None = None, limits: TextLimits | None = None) -> str:
    """Returns the canonical text of what the baselines depend on: the full task settings and the three caps."""
    short, limits = check_env_name(name), limits or TextLimits()
    parameters = inspect.signature(type(make_task(short, **(task or {})))).parameters
    settings = {key: parameter.default for key, parameter in parameters.items()} | (task or {})
    return json.dumps(
        {
            "env": short,
            "task": {key: value for key, value in settings.items() if key not in _PRESENTATION},
            "caps": [limits.max_turns, limits.max_actions_per_turn, limits.max_actions],
            "rules_version": RULES_VERSION,
        },
        sort_keys=True,
    )


def compute_baselines(key: str, count: int = _SHIPPED_COUNT, seconds: float | None = None) -> Baselines:
    """Computes what `key` (from settings_key) asks for.

    Args:
        key: canonical settings.
        count: test instances.
        seconds: stop each of the three early after this long; None: never, which makes the result reproducible.
    """
    asked = json.loads(key)
    limits = TextLimits(*asked["caps"])
    make: Callable[[], AnyTask] = lambda: make_task(asked["env"], **asked["task"])  # noqa: E731
    task, clock = make(), Clock(count, seconds)
    floor = random_success(task, limits, clock)
    blind, plan = blind_success(make, limits, clock)
    best = best_success(task, limits, clock)
    notes = {
        "random": f"uniformly random valid actions and turn sizes, {_sample(floor)}",
        "blind": f"best fixed plan found, {list(plan)}, chosen on train instances, {_sample(blind)}",
        "best": f"{task.best_how}, {_sample(best)}",
    }
    return Baselines(round(floor.rate, 4), round(blind.rate, 4), round(best.rate, 4), notes)


def shipped_baselines() -> dict[str, Baselines]:
    """Returns the values that come with the package, by settings key."""
    text = resources.files("ragen_envs").joinpath(SHIPPED_FILE).read_text(encoding="utf-8")
    return {key: Baselines(**values) for key, values in json.loads(text).items()}


@lru_cache(maxsize=256)
def _baselines_of(key: str) -> Baselines:
    shipped = shipped_baselines()
    if key in shipped:
        return shipped[key]
    cached = read_cached("baselines", key)
    if cached is not None:
        return Baselines(**cached)
    computed = compute_baselines(key, seconds=_DEMANDED_SECONDS)
    write_cached("baselines", key, asdict(computed))
    return computed


def _sample(score: Score) -> str:
    return f"{score.instances} test instances, ± {score.error:.1%}"


def main(names: list[str]) -> None:
    """Recomputes the shipped file (about twenty minutes on one core), or what it holds of what is named.

    The file is written after every value, so that an interrupted run keeps what it has computed.
    """
    asked = [split_preset(name) for name in names] or [(env, None) for env in env_names()]
    wanted = {(env, one) for env, name in asked for one in ([name] if name else preset_names(env))}
    keys = {settings_key(env, task, TextLimits(**limits)): (env, name) for env, name, (task, limits) in all_presets()}
    shipped: Tree = {key: asdict(found) for key, found in shipped_baselines().items() if key in keys}
    for key, (env, name) in keys.items():
        if (env, name) in wanted:
            found = compute_baselines(key)
            shipped[key] = asdict(found)
            print(f"{env:12} {name:12} random {found.random:.1%}, blind {found.blind:.1%}, best {found.best:.1%}")
            _write({key: shipped[key] for key in keys if key in shipped})


def _write(values: Tree) -> None:
    with resources.as_file(resources.files("ragen_envs").joinpath(SHIPPED_FILE)) as path:
        path.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
