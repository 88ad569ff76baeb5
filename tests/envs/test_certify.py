"""check_text_env passes the shipped environments and names the broken clause of broken ones."""

from __future__ import annotations

import inspect
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest

from ragen_envs import TextEnv, env_names, make_text_env
from ragen_envs.certify import CLAUSES, check_text_env, main
from ragen_envs.contract import CertificationError
from ragen_envs.countdown.env import CountdownEnv
from ragen_envs.countdown.puzzle import solve_puzzle
from ragen_envs.frozen_lake.env import FrozenLakeTask
from ragen_envs.presets import all_presets
from ragen_envs.sokoban.env import SokobanEnv
from ragen_envs.splits import draw_instance
from ragen_envs.task import TextTask, read_options
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


def no_text_env() -> Any:
    """A task where a TextEnv is wanted."""
    return SokobanEnv()


BROKEN: list[tuple[Callable[[], TextEnv], str]] = [
    (no_text_env, "it can be made and reset"),
    (lambda: TextEnv(PromptHoldsOutcome()), "a group shares its first prompt"),
    (lambda: TextEnv(UnseededInstance()), "the same seed gives the same instance"),
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


class GuessTheNumber(TextTask[int]):
    """A number that no prompt tells; the actions are told in words, and the seed's prompts are all the same."""

    title: ClassVar[str] = "Guess"

    def __init__(self, most: int = 60) -> None:
        self.action_space = gym.spaces.Discrete(most + 1)
        self.observation_space = gym.spaces.Text(200)
        self.most, self.number, self.said, self.found = most, 0, "", False

    def rules(self) -> str:
        return f"Guess a number from 1 to {self.most}. You are told whether it is too low or too high."

    def describe(self) -> str:
        return self.said or "No guess yet"

    def parse_action(self, text: str) -> int | None:
        text = text.strip()
        fits = text.isascii() and text.isdecimal() and len(text) < 4 and 1 <= int(text) <= self.most
        return int(text) if fits else None

    def legal_actions(self) -> list[str]:
        return [str(number) for number in range(1, self.most + 1)]

    @property
    def success(self) -> bool:
        return self.found

    @property
    def instance_key(self) -> str:
        return str(self.number)

    def solve(self) -> list[str] | None:
        return [str(self.number)]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        split, _ = read_options(seed, options)
        draw = self._seed_or_draw(seed)
        self.number = draw_instance(draw, split, lambda rng: int(rng.integers(1, self.most + 1)), str)
        self.said, self.found = "", False
        return self.describe(), {}

    def step(self, action: int) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.found = action == self.number
        self.said = "Found" if self.found else f"{action} is too {'low' if action < self.number else 'high'}"
        return self.describe(), float(self.found), self.found, False, {}


class GuessInFreeText(GuessTheNumber):
    """Any text is a question; the answer is a text that the rules hold as another number."""

    def rules(self) -> str:
        return "Ask anything, 5 times, and name the number, at most 60."

    def parse_action(self, text: str) -> int | None:
        return super().parse_action(text) or 0

    def legal_actions(self) -> list[str]:
        return []

    def random_action(self, rng: np.random.Generator) -> str:
        return f"is it even or above {rng.integers(60)}?"

    def step(self, action: int) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return super().step(action) if action else ("Perhaps", 0.0, False, False, {})


class NamesOfAnimals(GuessTheNumber):
    """Actions that are no numbers, told by one word for all."""

    actions_in_words: ClassVar[bool] = True

    def rules(self) -> str:
        return "Name the animal that I think of."

    def parse_action(self, text: str) -> int | None:
        names = ["cat", "dog", "eel", "fox", "gnu", "hen", "owl", "ape", "bat", "cow", "elk", "rat", "yak", "emu"]
        return names.index(text.strip().lower()) if text.strip().lower() in names else None

    def legal_actions(self) -> list[str]:
        return ["cat", "dog", "eel", "fox", "gnu", "hen", "owl", "ape", "bat", "cow", "elk", "rat", "yak", "emu"]

    def solve(self) -> list[str] | None:
        return [self.legal_actions()[self.number % 14]]

    def step(self, action: int) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.found = action == self.number % 14
        self.said = "Yes" if self.found else f"Not {self.legal_actions()[action]}"
        return self.describe(), float(self.found), self.found, False, {}


class AnimalsNotTold(NamesOfAnimals):
    """The same, and nobody says that the rules tell the actions."""

    actions_in_words: ClassVar[bool] = False


class TellsTheNumber(GuessInFreeText):
    """What is hidden is in the first prompt."""

    def describe(self) -> str:
        return f"I think of {self.number}"


class HiddenUnseeded(GuessTheNumber):
    """The prompt is the same for the same seed, what it hides is not."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        return super().reset(seed=random.randrange(10**6), options=options)


class HiddenByLuck(GuessTheNumber):
    """The members of a group look for different numbers."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        return super().reset(seed=(options or {}).get("outcome_seed", seed), options=options)


class OneInstance(GuessTheNumber):
    """Every seed is the same instance."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        return super().reset(seed=1, options=options)


@pytest.mark.parametrize("task", [GuessTheNumber, GuessInFreeText, NamesOfAnimals])
def test_hidden_information_and_actions_told_in_words_keep_the_contract(task: type[GuessTheNumber]) -> None:
    assert check_text_env(lambda: TextEnv(task())) == list(CLAUSES)


@pytest.mark.parametrize(
    ("task", "says"),
    [
        (AnimalsNotTold, "the legal action 'cat' is named neither in the rules nor in the state"),
        (TellsTheNumber, "the first prompt holds the answer"),
        (HiddenUnseeded, "gives another instance_key after other episodes"),
        (HiddenByLuck, "the instance_key depends on outcome_seed"),
        (OneInstance, "seeds 0…19 all give the same prompt and the same instance_key"),
    ],
)
def test_what_is_hidden_is_still_checked(task: type[GuessTheNumber], says: str) -> None:
    with pytest.raises(CertificationError, match=says):
        check_text_env(lambda: TextEnv(task()))


class RaisesIn(GuessTheNumber):
    """Raises in a method of its own."""

    def __init__(self, method: str = "", error: Exception | None = None) -> None:
        super().__init__()
        self.method, self.error = method, error

    def rules(self) -> str:
        return self._or_raise("rules", super().rules())

    def describe(self) -> str:
        return self._or_raise("describe", super().describe())

    def _or_raise(self, method: str, text: str) -> str:
        if self.error is not None and method == self.method:
            raise self.error
        return text


class CallsALibrary(GuessTheNumber):
    """A library raises, called in the wrong way."""

    def parse_action(self, text: str) -> int | None:
        return int(json.loads(text))


@pytest.mark.parametrize("method", ["rules", "describe"])
@pytest.mark.parametrize(
    ("error", "says"),
    [
        (KeyError("state"), "KeyError: 'state'"),
        (ValueError("of"), "ValueError: of"),
        (AssertionError(), "AssertionError"),
        (StopIteration(), "StopIteration"),
        (RuntimeError("two\nlines"), "RuntimeError: two lines"),
    ],
)
def test_an_exception_is_told_with_type_line_and_hint(
    method: str, error: Exception, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    lines, start = inspect.getsourcelines(RaisesIn._or_raise)
    line = start + next(k for k, text in enumerate(lines) if "raise self.error" in text)
    with pytest.raises(CertificationError) as caught:
        check_text_env(lambda: TextEnv(RaisesIn(method, error)))
    first, hint = str(caught.value).splitlines()
    assert first.endswith(f"is broken: {says} (tests/envs/test_certify.py:{line}, in _or_raise)")
    name = first.split("'")[1]
    assert hint == f"hint: {CLAUSES[name].hint}"
    assert caught.value.__cause__ is error


def test_what_a_library_raises_is_told_by_the_users_line() -> None:
    line = inspect.getsourcelines(CallsALibrary.parse_action)[1] + 1
    with pytest.raises(CertificationError, match=rf"Error: .*test_certify\.py:{line}, in parse_action\)"):
        check_text_env(lambda: TextEnv(CallsALibrary()))


def test_a_method_that_is_missing_is_told() -> None:
    class NoRandomAction(GuessInFreeText):
        random_action = TextTask.random_action

    with pytest.raises(CertificationError, match=r"NotImplementedError: Guess has no random actions \(.*task\.py:\d+"):
        check_text_env(lambda: TextEnv(NoRandomAction()))


@pytest.mark.parametrize(
    ("source", "code", "says"),
    [
        ("x = {}\ny = x['key']\n", 2, r"raises KeyError: 'key' \({name}\.py:2, in <module>\)"),
        ("x = 1\ndef (:\n", 2, r"SyntaxError: .* \({name}\.py:2\)"),
        ("import gone_module\n", 2, r"ModuleNotFoundError: .*gone_module.* \({name}\.py:1, in <module>\)"),
        (
            "from tests.envs.test_certify import GuessTheNumber\nclass World(GuessTheNumber):\n"
            "    def __init__(self):\n        raise KeyError('state')\n",
            1,
            r"'it can be made and reset' is broken: .*KeyError: 'state' \({name}\.py:4, in __init__\)",
        ),
    ],
    ids=["import", "syntax", "missing", "constructor"],
)
def test_the_command_says_where_a_users_module_fails(
    source: str,
    code: int,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = f"world_{abs(hash(source))}"
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert main([f"{name}:World"]) == code
    assert re.search(says.format(name=name), capsys.readouterr().out)


def test_the_command_prints_clauses_and_says_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bandit", "--instances", "3"]) == 0
    assert capsys.readouterr().out.count("ok ") == len(CLAUSES)
    assert main(["tests.envs.test_certify:out_of_reach"]) == 1
    printed = capsys.readouterr().out
    assert "goal is in reach" in printed and "hint: solve()" in printed
    assert main(["bandot"]) == 2
    assert "did you mean 'bandit'" in capsys.readouterr().out
    assert main(["no.such.module:make"]) == 2
    assert "no module 'no'" in capsys.readouterr().out
    for wrong, says in (([], "NAME"), (["bandit", "--instances", "1"], "--instances must be ≥ 2, got 1")):
        with pytest.raises(SystemExit) as end:
            main(wrong)
        assert end.value.code == 2 and says in capsys.readouterr().err


def test_the_command_helps(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    assert end.value.code == 0
    printed = capsys.readouterr().out
    assert "python -m ragen_envs.certify" in printed and "--instances" in printed
    assert all(name in printed for name in env_names())
