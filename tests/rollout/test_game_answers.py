"""What a MultiAgentEnv says, read into plain data, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest
from ray.rllib.env.multi_agent_env import MultiAgentEnv

from rllib_ragen.rollout.env_answers import BadAnswer
from rllib_ragen.rollout.game_answers import (
    AgentInfo,
    GameAnswer,
    GameOpening,
    GameSpec,
    read_game_answer,
    read_game_opening,
)
from rllib_ragen.types import StopReason
from tests.rollout.marked import Step, Tale, told

SPEC = GameSpec("g", env_seed=5, outcome_seed=6, sampling_seed=7)
HALF: Any = "\ud83d"


def test_a_game_begins_with_its_seeds_and_its_scripts() -> None:
    tale = Tale({"ann": "a"})
    read_game_opening(SPEC, tale)
    assert (tale.seed, tale.options) == (5, {"split": "train", "outcome_seed": 6})
    seats = (("ann", "red"), ("bob", "script:minimax"))
    read_game_opening(replace(SPEC, split="val", seats=seats, script_seed=0), tale)
    wanted = {"split": "val", "outcome_seed": 6, "scripts": {"bob": "minimax"}, "script_seed": 0}
    assert tale.options == wanted


def test_an_opening_is_read_as_it_is_given() -> None:
    tale = Tale({"ann": "for ann"}, ann={"state": "s", "valid": False}, bob={})
    infos = {"ann": AgentInfo(state="s", valid=False), "bob": AgentInfo()}
    assert read_game_opening(SPEC, tale) == GameOpening("rules", ("ann", "bob"), {"ann": "for ann"}, infos, "")
    tale.instance_key = "deal 9"
    assert read_game_opening(SPEC, tale).instance_key == "deal 9"


def test_an_environment_without_a_system_prompt_has_none() -> None:
    class Bare(MultiAgentEnv):
        possible_agents: ClassVar[list[str]] = ["ann"]

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
            return {"ann": "a"}, {}

    assert read_game_opening(SPEC, Bare()) == GameOpening("", ("ann",), {"ann": "a"}, {}, "")


def test_what_an_info_says() -> None:
    full = {
        "state": "s",
        "valid": 0,
        "actions": ["Up", "Down"],
        "success": 1,
        "outcome": "win",
        "stop_reason": "goal",
    }
    answer = read_game_answer({}, Tale({}, told(infos={"ann": full, "bob": {}})))
    assert answer.infos == {
        "ann": AgentInfo("s", False, 2, True, "win", "goal"),
        "bob": AgentInfo("", True, 1, False, "", ""),
    }
    assert [type(value) for value in vars(answer.infos["ann"]).values()] == [str, bool, int, bool, str, str]


def test_an_answer_is_read_as_it_is_given() -> None:
    said: Step = (
        {"ann": "a", "bob": "b", "cat": None},
        {"ann": 1, "cat": -0.5},
        {"cat": True},
        {"bob": True, "ann": False},
        {},
    )
    tale = Tale({}, said)
    found = read_game_answer({"ann": "Up"}, tale)
    assert tale.replies == [{"ann": "Up"}]
    ended = {"cat": True, "bob": True, "ann": False}
    assert found == GameAnswer(
        {"ann": "a"}, {"ann": 1.0, "cat": -0.5}, ended, frozenset({"bob"}), over=False, over_cut_off=False, infos={}
    )


@pytest.mark.parametrize(
    ("terminated", "truncated", "over", "cut"),
    [(False, False, False, False), (True, False, True, False), (False, True, True, True), (True, True, True, True)],
)
def test_a_game_is_over_by_its_rules_or_cut_off(terminated: bool, truncated: bool, over: bool, cut: bool) -> None:
    found = read_game_answer({}, Tale({}, ({}, {}, {"__all__": terminated}, {"__all__": truncated}, {})))
    assert (found.over, found.over_cut_off, found.ended) == (over, cut, {})


@pytest.mark.parametrize(
    ("ended", "cut_off", "over_cut_off", "infos", "reason"),
    [
        (True, False, False, AgentInfo(success=True), StopReason.GOAL),
        (True, False, False, AgentInfo(), StopReason.FAILED),
        (True, True, False, AgentInfo(success=True), StopReason.MAX_TURNS),
        (True, True, False, AgentInfo(stop_reason="max_actions"), StopReason.MAX_ACTIONS),
        (
            True,
            False,
            False,
            AgentInfo(stop_reason="env_error"),
            StopReason.FAILED,
        ),  # no end that an environment may tell
        (None, False, True, AgentInfo(success=True), StopReason.MAX_TURNS),
        (False, False, True, AgentInfo(), StopReason.MAX_TURNS),
        (True, False, True, AgentInfo(success=True), StopReason.GOAL),  # it had ended by itself
        (None, False, False, None, StopReason.FAILED),
    ],
)
def test_why_an_agent_ended(
    ended: bool | None, cut_off: bool, over_cut_off: bool, infos: AgentInfo | None, reason: StopReason
) -> None:
    answer = GameAnswer(
        {},
        {},
        {} if ended is None else {"ann": ended},
        frozenset({"ann"} if cut_off else ()),
        over=True,
        over_cut_off=over_cut_off,
        infos={} if infos is None else {"ann": infos},
    )
    assert answer.end_of("ann") is reason


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (told({"ann": 3}), "agent 'ann' is prompted with a int, not with text"),
        (told({"ann": HALF}), "agent 'ann' a prompt that is no text"),
        (told({HALF: "a"}), "an agent's name that is no text"),
        (told(rewards={HALF: 1.0}), "an agent's name that is no text"),
        (told(ended=[HALF]), "an agent's name that is no text"),
        (told(rewards={"ann": float("nan")}), "^agent 'ann' got a reward of nan"),
        (told(infos={"ann": {"state": HALF}}), "a state that is no text"),
        (told(infos={"ann": {"outcome": HALF}}), "an outcome that is no text"),
        (told(infos={"ann": {"stop_reason": HALF}}), "a stop_reason that is no text"),
    ],
)
def test_answers_are_plain_text_and_numbers(said: Step, error: str) -> None:
    with pytest.raises(BadAnswer, match=error):
        read_game_answer({}, Tale({}, said))


def test_openings_are_plain_text() -> None:
    for tale, error in (
        (Tale({"ann": 3}), "agent 'ann' is prompted with a int"),
        (Tale({HALF: "a"}), "an agent's name"),
        (Tale({}, agents=(HALF,)), "an agent's name"),
        (Tale({}, ann={"state": 7}), "a state that is no text but int"),
    ):
        with pytest.raises(BadAnswer, match=error):
            read_game_opening(SPEC, tale)
    for name, what in (("system_prompt", "a system prompt"), ("instance_key", "an instance key")):
        tale = Tale({"ann": "a"})
        setattr(tale, name, HALF)
        with pytest.raises(BadAnswer, match=what):
            read_game_opening(SPEC, tale)
