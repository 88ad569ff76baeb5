"""check_text_env passes the shipped environments and names the broken clause of broken ones."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pytest

from ragen_envs import TextEnv, env_names, make_text_env
from ragen_envs.certify import CLAUSES, CertificationError, check_text_env, main
from ragen_envs.countdown.env import CountdownEnv
from ragen_envs.countdown.puzzle import solve_puzzle
from ragen_envs.frozen_lake.env import FrozenLakeTask
from ragen_envs.presets import all_presets
from ragen_envs.sokoban.env import SokobanEnv
from ragen_envs.text import TextLimits

PRESETS = [(env, name, given) for env, name, given in all_presets() if name != "8x8-2-boxes"]


@pytest.mark.parametrize(("env", "name", "given"), PRESETS, ids=[f"{env}-{name}" for env, name, _ in PRESETS])
def test_shipped_environments_keep_the_contract_under_every_preset(env: str, name: str, given: Any) -> None:
    assert check_text_env(lambda: make_text_env(env, given.task, given.limits), instances=12) == list(CLAUSES)


def test_the_large_sokoban_preset_keeps_the_contract() -> None:
    task = {"height": 8, "width": 8, "num_boxes": 2}
    assert check_text_env(lambda: make_text_env("sokoban", task), instances=6) == list(CLAUSES)


@pytest.mark.parametrize("limits", [{"max_turns": 1}, {"max_actions_per_turn": 1, "think": False}])
def test_other_limits_keep_the_contract(limits: dict[str, Any]) -> None:
    assert check_text_env(lambda: make_text_env("frozen_lake", {"success_rate": 1.0}, limits), instances=12)


class PromptHoldsOutcome(FrozenLakeTask):
    """Group members get different prompts."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        result = super().reset(seed=seed, options=options)
        self._outcome_seed = (options or {}).get("outcome_seed", seed)
        return result

    def describe(self) -> str:
        return f"{super().describe()}\nOutcome {getattr(self, '_outcome_seed', None)}"


class UnseededInstance(SokobanEnv):
    """The seed is ignored."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        return super().reset(seed=random.randrange(10**6), options=options)


class UnseededChance(FrozenLakeTask):
    """Chance that is not a function of outcome_seed."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        return super().reset(seed=seed, options={**(options or {}), "outcome_seed": random.randrange(10**6)})


class SplitIgnored(SokobanEnv):
    """Test instances are training instances."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        return super().reset(seed=seed, options={**(options or {}), "split": "train"})


class CannotParse(SokobanEnv):
    """Junk makes the parser raise."""

    def parse_action(self, text: str) -> int | None:
        return {"up": 0, "down": 1, "left": 2, "right": 3}[text.strip().lower()]


class TakesAnything(SokobanEnv):
    """What is no action is played as one, so the penalty never applies."""

    def parse_action(self, text: str) -> int | None:
        known = super().parse_action(text)
        return 0 if known is None else known


class UntoldAction(SokobanEnv):
    """An action that the rules do not name."""

    def legal_actions(self) -> list[str]:
        return ["Upwards", "Down", "Left", "Right"]

    def parse_action(self, text: str) -> int | None:
        return 0 if text.strip().lower() == "upwards" else super().parse_action(text)


class NotFinite(SokobanEnv):
    """A reward that is no number."""

    def step(self, action: int) -> tuple[str, float, bool, bool, dict[str, Any]]:
        text, _, *rest = super().step(action)
        return text, float("nan"), *rest  # type: ignore[return-value]


def out_of_reach() -> TextEnv:
    """Caps that make success impossible."""
    return TextEnv(SokobanEnv(min_solution_steps=3), TextLimits(max_turns=2, max_actions_per_turn=1))


class ClosesOnce(SokobanEnv):
    """A second close() fails."""

    _closed = False

    def close(self) -> None:
        if self._closed:
            raise RuntimeError("closed already")
        self._closed = True


class PaysForNothing(SokobanEnv):
    """A move against a wall is paid."""

    def step(self, action: int) -> tuple[str, float, bool, bool, dict[str, Any]]:
        before = self.room
        text, reward, *rest = super().step(action)
        return text, 0.1 if self.room == before else reward, *rest  # type: ignore[return-value]


class TellsTheAnswer(CountdownEnv):
    """The prompt holds a solution."""

    def describe(self) -> str:
        return f"{super().describe()}\n{solve_puzzle(self.puzzle)}"


class PenaltyForgotten(TextEnv):
    """Invalid turns are free."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        text, reward, terminated, truncated, info = super().step(action)
        return text, reward if info["valid"] else 0.0, terminated, truncated, info


class NeverTruncates(TextEnv):
    """The turn cap is not kept."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        text, reward, terminated, truncated, info = super().step(action)
        if truncated and info["stop_reason"] == "max_turns":
            self._done, truncated = False, False
        return text, reward, terminated, truncated, info


class PlaysOn(TextEnv):
    """step() after the end goes on silently."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        try:
            return super().step(action)
        except gym.error.ResetNeeded:
            return "", 0.0, True, False, {}


class FourTuple(TextEnv):
    """The old step API."""

    def step(self, action: str) -> Any:
        text, reward, terminated, truncated, info = super().step(action)
        return text, reward, terminated or truncated, info


class TooManyActions(TextEnv):
    """The cap on actions of a turn is not kept."""

    def _run(self, names: tuple[str, ...]) -> tuple[list[str], list[str], float, bool]:
        own, self.limits = self.limits, TextLimits(max_actions_per_turn=6)
        try:
            return super()._run(names)
        finally:
            self.limits = own


BROKEN: list[tuple[Callable[[], TextEnv], str]] = [
    (lambda: TextEnv(PromptHoldsOutcome()), "a group shares its first prompt"),
    (lambda: TextEnv(UnseededInstance()), "the same seed gives the same prompt"),
    (lambda: TextEnv(UnseededChance(success_rate=0.4)), "the same seeds and replies give the same episode"),
    (lambda: TextEnv(SplitIgnored()), "splits are disjoint"),
    (lambda: TextEnv(CannotParse()), "junk never raises and is never paid"),
    (lambda: TextEnv(TakesAnything()), "junk never raises and is never paid"),
    (lambda: TextEnv(UntoldAction()), "legal actions are told and understood"),
    (lambda: TextEnv(NotFinite()), "steps are Gymnasium's 5-tuples"),
    (out_of_reach, "the goal is in reach of the solver"),
    (lambda: TextEnv(ClosesOnce()), "close() can be called twice"),
    (lambda: PenaltyForgotten(SokobanEnv()), "the format penalty is exact"),
    (lambda: NeverTruncates(SokobanEnv()), "the turn cap is reached"),
    (lambda: PlaysOn(SokobanEnv()), "an episode ends once"),
    (lambda: FourTuple(SokobanEnv()), "steps are Gymnasium's 5-tuples"),
    (lambda: TooManyActions(SokobanEnv()), "caps hold"),
    (lambda: TextEnv(PaysForNothing()), "an action that changes nothing is not paid"),
    (lambda: TextEnv(TellsTheAnswer()), "the first prompt does not hold the answer"),
]


@pytest.mark.parametrize(("make", "clause"), BROKEN, ids=[f"{i}-{clause}" for i, (_, clause) in enumerate(BROKEN)])
def test_a_broken_environment_is_refused_by_the_clause_it_breaks(make: Callable[[], TextEnv], clause: str) -> None:
    with pytest.raises(CertificationError, match=re.escape(f"clause {clause!r} is broken")):
        check_text_env(make, instances=8)


def test_every_clause_is_broken_by_some_environment_here() -> None:
    assert {clause for _, clause in BROKEN} == set(CLAUSES)


def test_the_command_prints_clauses_and_says_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bandit"]) == 0
    assert capsys.readouterr().out.count("ok ") == len(CLAUSES)
    assert main(["tests.envs.test_certify:out_of_reach"]) == 1
    assert "goal is in reach" in capsys.readouterr().out
    assert main(["bandot"]) == 1
    assert "did you mean 'bandit'" in capsys.readouterr().out
    assert main(["no.such.module:make"]) == 1
    assert main([]) == 2
    printed = capsys.readouterr().out
    assert all(name in printed for name in env_names())
