"""Several text environments behind one door: each plays as it does by itself."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest

from ragen_envs.registry import make_text_env
from ragen_envs.several import SeveralTextEnvs

SOKOBAN: list[dict[str, Any]] = [
    {"name": "sokoban", "task": {"min_solution_steps": 1}, "limits": {"max_turns": 3}},
    {"name": "sokoban", "task": {"min_solution_steps": 6}, "limits": {"max_actions": 20}},
]
LAKE: list[dict[str, Any]] = [{"name": "frozen_lake", "task": {"size": 5}, "limits": {"think": False, "max_turns": 7}}]


def test_each_plays_as_it_does_by_itself() -> None:
    several = SeveralTextEnvs({"a": SOKOBAN, "b": LAKE})
    several.make_all()
    assert several.max_turns == 7
    for label, level in (("b", 0), ("a", 0), ("b", 0), ("a", 1)):
        alone = make_text_env(**(LAKE if label == "b" else SOKOBAN)[level])
        options = {"split": "val", "outcome_seed": 9}
        reply = "<answer>Up || Left</answer>" if label == "b" else "<think></think><answer>Up || Left</answer>"
        first = several.reset(seed=3, options={**options, "env": label, "level": level})
        assert first == alone.reset(seed=3, options=options)
        assert several.system_prompt == alone.system_prompt
        assert several.step(reply) == alone.step(reply)
        assert several.render() == alone.render()
    several.close()


def test_the_first_environment_at_its_last_level_is_what_nobody_chose() -> None:
    several, target = SeveralTextEnvs({"a": SOKOBAN, "b": LAKE}), make_text_env(**SOKOBAN[1])
    assert several.reset(seed=1) == target.reset(seed=1)


def test_what_is_not_there_is_refused() -> None:
    several = SeveralTextEnvs({"a": SOKOBAN, "b": LAKE})
    with pytest.raises(gym.error.ResetNeeded, match="no environment is chosen"):
        several.step("<answer>Up</answer>")
    with pytest.raises(ValueError, match="unknown environment 'c'; allowed: a, b"):
        several.reset(options={"env": "c"})
    with pytest.raises(ValueError, match="level must be 0 to 1, got 2"):
        several.reset(options={"env": "a", "level": 2})
    with pytest.raises(ValueError, match="at least one"):
        SeveralTextEnvs({"a": []})
    with pytest.raises(ValueError, match="unknown setting 'sise'"):
        SeveralTextEnvs({"a": [{"name": "frozen_lake", "task": {"sise": 3}}]}).make_all()
