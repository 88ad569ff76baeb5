"""Turns, caps, the format penalty and prompts, the same for every task."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest

from ragen_envs import TextEnv, TextLimits, env_names, make_task, make_text_env
from ragen_envs.certify import JUNK_REPLIES
from ragen_envs.reply import format_reply
from tests.envs.rooms import env_at, room_of

CORRIDOR = ("#########", "#P_____X#", "#_____O_#", "#########")
"""A room where nothing that moves along the first row ends the episode."""


def _corridor(**limits: Any) -> TextEnv:
    env = TextEnv(env_at(*CORRIDOR), TextLimits(**limits))
    env.reset(seed=0)
    env.task.room = room_of(*CORRIDOR)  # type: ignore[attr-defined]
    return env


def _say(*actions: str) -> str:
    return format_reply(list(actions), "hm")


def test_actions_of_a_turn_run_in_order_and_their_rewards_add_up() -> None:
    env = _corridor()
    text, reward, terminated, truncated, info = env.step(_say("Right", "down", "LEFT"))
    assert reward == pytest.approx(-0.3)
    assert (terminated, truncated, info["valid"], info["actions"]) == (False, False, True, ["Right", "down", "LEFT"])
    assert "#P____O_#" in text


def test_the_state_is_the_same_text_whenever_it_is_reached() -> None:
    env = _corridor()
    states = [env.step(_say(*actions))[4]["state"] for actions in (("Down",), ("Down", "Left"), ("Right", "Left"), ())]
    assert states[0] == states[1] == env.render(), "what changes nothing, changes no state"
    assert not any(str(count) in states[0].splitlines()[0] for count in (env.turn, env.actions_left))


def test_actions_beyond_the_turn_cap_are_dropped_and_the_prompt_says_so() -> None:
    env = _corridor(max_actions_per_turn=2)
    text, reward, _, _, info = env.step(_say("Right", "Right", "Right"))
    assert (info["actions"], info["dropped"]) == (["Right", "Right"], ["Right"])
    assert reward == pytest.approx(-0.2)
    assert "ignored 1" in text


def test_unknown_actions_are_dropped_and_the_valid_ones_still_run_without_penalty() -> None:
    env = _corridor()
    _, reward, _, _, info = env.step(_say("Jump", "Right", "Fly"))
    assert (info["actions"], info["dropped"], info["valid"]) == (["Right"], ["Jump", "Fly"], True)
    assert reward == pytest.approx(-0.1)


@pytest.mark.parametrize("reply", ["Right", _say("Jump"), _say(), "<answer>Right</answer>"])
def test_a_turn_without_a_valid_action_costs_the_penalty_and_changes_nothing(reply: str) -> None:
    env = _corridor(format_penalty=-0.25)
    before = env.render()
    text, reward, _, _, info = env.step(reply)
    assert (reward, info["valid"], env.render()) == (-0.25, False, before)
    assert "no valid action" in text
    assert "Turn 2, 10 actions left" in text


def test_the_action_cap_ends_the_episode_within_a_turn() -> None:
    env = _corridor(max_actions=3, max_actions_per_turn=5)
    _, _, terminated, truncated, info = env.step(_say("Right", "Left", "Right", "Left"))
    assert (terminated, truncated, info["stop_reason"]) == (False, True, "max_actions")
    assert (info["actions"], info["dropped"]) == (["Right", "Left", "Right"], ["Left"])


def test_the_turn_cap_ends_the_episode() -> None:
    env = _corridor(max_turns=2)
    assert env.step(_say("Right"))[2:4] == (False, False)
    _, _, terminated, truncated, info = env.step(_say("Right"))
    assert (terminated, truncated, info["stop_reason"], info["success"]) == (False, True, "max_turns", False)


def test_the_goal_counts_on_the_very_last_action() -> None:
    env = TextEnv(env_at("#####", "#PXO#", "#####"), TextLimits(max_turns=1, max_actions=1))
    env.reset(seed=0)
    env.task.room = room_of("#####", "#PXO#", "#####")  # type: ignore[attr-defined]
    _, reward, terminated, truncated, info = env.step(_say("Right"))
    assert (terminated, truncated, info["success"], info["stop_reason"]) == (True, False, True, "goal")
    assert reward == pytest.approx(10.9)


def test_actions_after_the_goal_are_not_played_nor_paid() -> None:
    env = TextEnv(env_at("######", "#PXO_#", "######"))
    env.reset(seed=0)
    env.task.room = room_of("######", "#PXO_#", "######")  # type: ignore[attr-defined]
    _, reward, terminated, _, info = env.step(_say("Right", "Right", "Left"))
    assert terminated
    assert info["actions"] == ["Right"]
    assert reward == pytest.approx(10.9)


def test_a_failed_end_is_told_from_a_goal_and_from_a_cap() -> None:
    env = make_text_env("bandit")
    env.reset(seed=0)
    (high,) = env.task.solve() or ["none"]
    low = next(name for name in env.task.legal_actions() if name != high)
    info = env.step(_say(low))[4]
    assert (info["stop_reason"], info["success"]) == ("failed", False)


@pytest.mark.parametrize("name", env_names())
@pytest.mark.parametrize("junk", JUNK_REPLIES, ids=[repr(junk[:24]) for junk in JUNK_REPLIES])
def test_H1_junk_and_empty_answers_get_nothing(name: str, junk: str) -> None:
    """An empty answer is a substring of everything; here it is no action, costs the penalty and reaches nothing."""
    env = make_text_env(name)
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step(junk)
    assert reward == env.limits.format_penalty
    assert not info["success"]
    assert not terminated


@pytest.mark.parametrize("name", env_names())
def test_H2_good_form_alone_earns_what_junk_earns(name: str) -> None:
    """Form is never paid: whoever learns it and nothing else stays at the penalty in every turn."""
    env = make_text_env(name)
    env.reset(seed=0)
    for turn in range(env.limits.max_turns):
        _, reward, _, truncated, info = env.step(format_reply(["no such move"], "First I think. " * (turn + 1)))
        assert info["well_formed"] and not info["valid"] and not info["success"]
        assert reward == env.limits.format_penalty <= 0
    assert truncated


def test_no_episode_goes_on_after_its_end() -> None:
    env = _corridor(max_turns=1)
    env.step("")
    with pytest.raises(gym.error.ResetNeeded):
        env.step("")
    with pytest.raises(gym.error.ResetNeeded):
        make_text_env("sokoban").step("")


@pytest.mark.parametrize("name", env_names())
def test_full_prompts_tell_form_caps_and_penalty_and_brief_ones_the_name(name: str) -> None:
    turns = max(4, make_task(name).fewest_actions())
    full = make_text_env(name, limits={"max_turns": turns, "max_actions_per_turn": 3, "max_actions": 2 * turns})
    prompt = full.system_prompt
    for part in ("<think>", "<answer>", "||", "at most 3", f"{turns} turn", f"{2 * turns} action", "0.1"):
        assert part in prompt
    without = make_text_env(name, limits={"think": False}).system_prompt
    assert "<think>" not in without
    assert make_text_env(name, limits={"prompt_style": "brief"}).system_prompt == full.task.title


@pytest.mark.parametrize("name", env_names())
def test_spaces_hold_what_is_said_and_heard(name: str) -> None:
    env = make_text_env(name)
    observation, _ = env.reset(seed=0)
    assert observation in env.observation_space
    for junk in JUNK_REPLIES:
        assert junk in env.action_space
    assert env.task.describe() in env.task.observation_space


@pytest.mark.parametrize("wrong", [{"max_turns": 0}, {"max_actions": 0}, {"max_actions_per_turn": 0}])
def test_caps_below_one_are_refused_by_name(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        TextLimits(**wrong)  # type: ignore[arg-type]
