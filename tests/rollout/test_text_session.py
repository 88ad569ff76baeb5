"""An episode of one agent against an environment that follows a story: what is read, kept and paid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from ragen_envs.text import TextEnv
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.rollout.collect import collect
from rllib_ragen.rollout.env_answers import BadAnswer
from rllib_ragen.rollout.specs import EpisodeSpec
from rllib_ragen.rollout.text_session import Opening, Step, read_opening, read_step
from rllib_ragen.types import Sampling, StopReason, Trajectory
from tests.rollout.marked import Marked

SPEC = EpisodeSpec("g", env_seed=5, outcome_seed=6, sampling_seed=7, split="val")
Said = tuple[str, float, bool, bool, dict[str, Any]]


def info(state: str, **more: Any) -> dict[str, Any]:
    return {"state": state, "success": False, "valid": True, "actions": ["Up"], **more}


class Tale:
    """Says what it was told to say, whatever is replied; remembers seed and options."""

    system_prompt = "Rules"

    def __init__(self, *said: Said, opening: dict[str, Any] | None = None) -> None:
        self.said: list[Said] = list(said)
        self.opening = {"state": "start"} if opening is None else opening
        self.given: Any = None

    def reset(self, *, seed: int, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        self.given = (seed, options)
        return "Where?", self.opening

    def step(self, action: str) -> Said:
        return self.said.pop(0)

    def close(self) -> None:
        """Nothing to close."""


def env(tale: Tale) -> TextEnv:
    return cast(TextEnv, tale)


def played(chat: ChatFormat, tale: Tale, specs: Sequence[EpisodeSpec] = (SPEC,)) -> Trajectory:
    (found,) = collect(
        specs,
        engine=Marked(chat, "Up"),
        chat=chat,
        make_env=lambda: env(tale),
        sampling=Sampling(9, chat.stop_token_ids),
        max_context_tokens=1000,
    )
    return found


def test_an_episode_is_its_prompts_replies_and_pay(chat: ChatFormat) -> None:
    tale = Tale(
        ("And now?", 0.5, False, False, info("middle", valid=False, actions=["Up", "Down"])),
        ("Well done.", 2.0, True, False, info("end", success=True, actions=[], stop_reason="goal")),
        opening={"state": "start", "instance_key": "level 9"},
    )
    found = played(chat, tale)
    assert tale.given == (5, {"split": "val", "outcome_seed": 6})
    assert (found.group_id, found.env_seed, found.outcome_seed, found.instance_key) == ("g", 5, 6, "level 9")
    assert [(t.prompt, t.state, t.reply, t.reward, t.valid, t.num_actions) for t in found.turns] == [
        ("Where?", "start", "Up", 0.5, False, 2),
        ("And now?", "middle", "Up", 2.0, True, 0),
    ]
    assert found.turns[0].prompt_ids.tolist() == chat.first_prompt("Rules", "Where?")
    assert found.turns[1].prompt_ids.tolist() == chat.next_prompt("And now?", True)
    assert (found.success, found.stop_reason, found.error) == (True, StopReason.GOAL, "")


@pytest.mark.parametrize(
    ("terminated", "truncated", "success", "reason"),
    [
        (True, False, False, StopReason.FAILED),  # a hole: it terminates, and nothing is reached
        (True, False, True, StopReason.GOAL),
        (False, True, False, StopReason.MAX_TURNS),
        (False, True, True, StopReason.MAX_ACTIONS),
    ],
)
def test_success_is_what_the_environment_says_however_it_ends(
    chat: ChatFormat, terminated: bool, truncated: bool, success: bool, reason: StopReason
) -> None:
    last = ("", 0.0, terminated, truncated, info("end", success=success, stop_reason=str(reason)))
    found = played(chat, Tale(last))
    assert (found.success, found.stop_reason, len(found.turns)) == (success, reason, 1)


def test_an_episode_that_goes_on_is_no_success_yet(chat: ChatFormat) -> None:
    on = ("Go on.", 1.0, False, False, info("middle", success=True))
    end = ("", 0.0, True, False, info("end", stop_reason="failed"))
    assert not played(chat, Tale(on, end)).success


def test_what_ends_an_episode_from_outside_is_written_down(chat: ChatFormat) -> None:
    (failed,) = collect(
        [SPEC],
        engine=Marked(chat, "Up", fails_on="Where?"),
        chat=chat,
        make_env=lambda: env(Tale()),
        sampling=Sampling(9, chat.stop_token_ids),
        max_context_tokens=1000,
    )
    assert (failed.stop_reason, failed.error, failed.success) == (StopReason.ENGINE_ERROR, "this one fails", False)


def test_an_opening_is_read_as_it_is_given() -> None:
    assert read_opening(SPEC, env(Tale())) == Opening("Rules", "Where?", "start")
    keyed = Tale(opening={"state": "s", "instance_key": "k"})
    assert read_opening(SPEC, env(keyed)) == Opening("Rules", "Where?", "s", "k")


def test_a_step_is_read_as_it_is_given() -> None:
    said = info("middle", dropped=["Down", 3], actions=["Up", 7], valid=0, success=1, stop_reason="goal")
    going = Step("On.", "middle", 0.5, True, False, ["Up", "7"], ["Down", "3"], None)
    assert read_step("Up", env(Tale(("On.", 0.5, False, False, said)))) == going
    last = read_step("Up", env(Tale(("On.", 0.5, True, False, info("end", stop_reason="failed")))))
    assert (last.stop_reason, last.dropped) == (StopReason.FAILED, [])


@pytest.mark.parametrize("key", ["state", "success", "valid", "actions"])
def test_a_step_lacks_nothing(key: str) -> None:
    said = info("middle")
    del said[key]
    with pytest.raises(KeyError, match=key):
        read_step("Up", env(Tale(("On.", 0.5, False, False, said))))


HALF: Any = "\ud83d"


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ((HALF, 0.0, False, False, info("s")), "a message that is no text"),
        (("On.", 0.0, False, False, info(HALF)), "a state that is no text"),
        (("On.", float("nan"), False, False, info("s")), "a reward of nan"),
        (("On.", 0.0, False, False, info("s", actions=[HALF])), "an action that is no text"),
        (("On.", 0.0, False, False, info("s", dropped=[HALF])), "an action that is no text"),
        (("On.", 0.0, False, True, info("s", stop_reason="tired")), "'tired'; allowed: goal, failed"),
    ],
)
def test_a_step_is_plain_text_and_numbers(said: Said, error: str) -> None:
    with pytest.raises(BadAnswer, match=error):
        read_step("Up", env(Tale(said)))


@pytest.mark.parametrize(
    ("opening", "error"),
    [({"state": 7}, "a state that is no text but int"), ({"state": "s", "instance_key": 7}, "an instance key")],
)
def test_an_opening_is_plain_text(opening: dict[str, Any], error: str) -> None:
    with pytest.raises(BadAnswer, match=error):
        read_opening(SPEC, env(Tale(opening=opening)))


@pytest.mark.parametrize("what", ["message", "system prompt"])
def test_what_is_said_at_the_opening_is_plain_text(what: str) -> None:
    class Mute(Tale):
        system_prompt = HALF if what == "system prompt" else "Rules"

        def reset(self, *, seed: int, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
            return (HALF if what == "message" else "Where?"), self.opening

    with pytest.raises(BadAnswer, match=f"a {what} that is no text"):
        read_opening(SPEC, env(Mute()))
