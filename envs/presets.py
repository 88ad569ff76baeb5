"""Named settings of every environment: defaults, a harder or easier variant, and for some those of the two papers."""

from __future__ import annotations

import difflib
from typing import NamedTuple

from ragen_envs.registry import check_env_name, default_limits, env_names
from ragen_envs.tree import Tree

PAPER_PRESETS = ("ragen-v1", "ragen-v2")
"""Names of the presets with the two papers' caps."""
PAPER_ENVS = ("sokoban", "frozen_lake", "bandit", "countdown")
"""Environments that have these presets; the others have caps of their own."""
_V1_LIMITS = {"max_turns": 5, "max_actions_per_turn": 5, "max_actions": 10}
_V2_LIMITS = {"max_turns": 5, "max_actions_per_turn": 2, "max_actions": 10}
_LIMITS: dict[str, Tree] = {
    "ragen-v1": _V1_LIMITS,
    "ragen-v2": _V2_LIMITS,
    "long-solutions": {"max_actions": 20},
}
_TASKS: dict[str, dict[str, Tree]] = {
    "sokoban": {
        "ragen-v1": {"observation": "grid"},
        "ragen-v2": {"observation": "both"},
        "long-solutions": {"min_solution_steps": 6},
        "8x8": {"height": 8, "width": 8},
        "8x8-2-boxes": {"height": 8, "width": 8, "num_boxes": 2},
        "other-symbols": {"symbols": "letters"},
    },
    "frozen_lake": {
        "ragen-v1": {"p_frozen": 0.8, "success_rate": 1 / 3, "observation": "grid"},
        "ragen-v2": {"p_frozen": 0.9, "success_rate": 0.8, "observation": "both"},
        "no-slips": {"success_rate": 1.0},
        "more-slips": {"success_rate": 1 / 3},
        "6x6": {"size": 6},
        "other-symbols": {"symbols": "letters"},
    },
    "bandit": {
        "ragen-v1": {"low_reward": 0.15},
        "ragen-v2": {"low_reward": 0.1},
        "reversed": {"reversed": True},
    },
    "countdown": {
        "4-numbers": {"num_numbers": 4},
        "larger-numbers": {"max_number": 50, "max_target": 199},
    },
    "sudoku": {
        "9x9": {"size": 9, "blanks": 30},
    },
    "game_2048": {
        "64": {"goal_tile": 64},
    },
    "rubik": {
        "7-turns": {"scramble_turns": 7},
    },
    "webshop": {
        "15-actions": {},
        "raw-reward": {"reward": "raw"},
    },
    "search_qa": {
        "3-documents": {"top_k": 3},
    },
    "maths": {
        "leg-counting": {"generator": "leg_counting"},
    },
}
_OWN_LIMITS: dict[tuple[str, str], Tree] = {
    ("sudoku", "9x9"): {"max_turns": 10, "max_actions_per_turn": 5, "max_actions": 50},
    ("webshop", "15-actions"): {"max_turns": 15, "max_actions_per_turn": 1, "max_actions": 15},
    ("game_2048", "64"): {"max_turns": 7, "max_actions_per_turn": 5, "max_actions": 35},
}
"""Caps of a preset of one environment."""


class Preset(NamedTuple):
    """Arguments of `make_text_env`: settings of the task, and fields of TextLimits."""

    task: Tree
    limits: Tree


def preset_names(env: str) -> list[str]:
    """Returns the preset names of `env` (short name or Gymnasium id). Raises ValueError for an unknown environment."""
    short = check_env_name(env)
    papers = PAPER_PRESETS if short in PAPER_ENVS else ()
    return ["default", *papers, *(name for name in _TASKS[short] if name not in PAPER_PRESETS)]


def split_preset(name: str) -> tuple[str, str | None]:
    """Returns `sokoban/8x8` → (`sokoban`, `8x8`), `sokoban` and `ragen/Sokoban-v0` → (`sokoban`, None).

    Raises:
        ValueError: unknown environment or preset.
    """
    env, slash, wanted = name.partition("/")
    if not slash or env not in env_names():
        return check_env_name(name), None
    preset(env, wanted)
    return env, wanted


def preset(env: str, name: str = "default") -> Preset:
    """Returns fresh copies of the settings of preset `name` of `env`.

    Raises:
        ValueError: unknown environment or preset; names the allowed ones and the nearest.
    """
    short, allowed = check_env_name(env), preset_names(env)
    if name not in allowed:
        near = difflib.get_close_matches(name, allowed, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown preset {name!r} of {short}; allowed: {', '.join(allowed)}{hint}")
    limits = {**default_limits(short), **_LIMITS.get(name, {}), **_OWN_LIMITS.get((short, name), {})}
    return Preset(dict(_TASKS[short].get(name, {})), limits)


def all_presets() -> list[tuple[str, str, Preset]]:
    """Returns every (environment, preset name, preset)."""
    return [(env, name, preset(env, name)) for env in env_names() for name in preset_names(env)]
