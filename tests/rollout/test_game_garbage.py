"""Faults of one game are its own affair: garbage, exceptions, hangs and non-finite numbers, in collection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.rollout.engines.base import Engine
from rllib_ragen.rollout.scripted_seats import GameMultiAgentEnv
from rllib_ragen.types import Sampled, StopReason, Trajectory
from tests.rollout.marked import Marked, Step, Story, told
from tests.rollout.spoilt_games import BAD_SEED, GARBLES, HALF, NEVER, Garble, SpoiltGame
from tests.rollout.test_multi_agent import play, specs

CHECK = "<think></think><answer>Check</answer>"


@pytest.fixture(autouse=True)
def release_the_hung() -> Iterator[None]:
    NEVER.clear()
    yield
    NEVER.set()


def games(chat: ChatFormat, garble: Garble, engine: Engine | None = None) -> list[list[Trajectory]]:
    engines = {"red": engine or Marked(chat, CHECK)}
    return play(
        chat,
        lambda: GameMultiAgentEnv(SpoiltGame(garble)),
        engines,
        specs(6),
        lambda agent, spec: "red",
        env_timeout_s=2.0,
    )


def assert_only_the_bad_one_failed(found: list[list[Trajectory]], healthy: list[list[Trajectory]], error: str) -> None:
    for seed, (game, usual) in enumerate(zip(found, healthy, strict=True)):
        if seed == BAD_SEED:
            assert game and all(error in one.error and one.stop_reason.failed for one in game)
        else:
            assert str(game) == str(usual), "the others are what they would have been"


@pytest.mark.parametrize("name", GARBLES)
def test_L1_garbage_from_a_game_ends_its_own_game(chat: ChatFormat, name: str) -> None:
    garble, error = GARBLES[name]
    found = games(chat, garble)
    assert_only_the_bad_one_failed(found, games(chat, lambda step: step), error)
    assert {one.stop_reason for one in found[BAD_SEED]} == {StopReason.ENV_ERROR}


NAMELESS: Any = {3: "who"}
NO_INFO: Any = {"ann": "fine"}
RAW: dict[str, tuple[Any, str]] = {
    "nothing": (None, "TypeError"),
    "too few": (told()[:3], "ValueError"),
    "numbers": (7, "TypeError"),
    "an agent without a name": (told(NAMELESS), "an agent's name that is no text but int"),
    "half a name": (told({HALF: "who"}), "an agent's name that is no text"),
    "an end of nobody's": (({}, {}, None, None, {}), "TypeError"),
    "an info that is none": (told({"ann": "a"}, infos=NO_INFO), "AttributeError"),
}


@pytest.mark.parametrize("name", RAW)
def test_L1_garbage_from_a_users_own_multi_agent_env_ends_its_own_game(chat: ChatFormat, name: str) -> None:
    answer, error = RAW[name]

    class OneIsBad(Story):
        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            steps: list[Step] = [answer if seed == BAD_SEED else told(over=True)]
            self.steps = steps
            return super().reset(seed=seed)

    found = play(chat, lambda: OneIsBad({"ann": "a", "bob": "b"}, []), games=specs(6))
    for seed, game in enumerate(found):
        assert [one.stop_reason is StopReason.ENV_ERROR for one in game] == [seed == BAD_SEED] * 2
        assert all((error in one.error) == (seed == BAD_SEED) for one in game)


def test_last_words_need_not_be_text(chat: ChatFormat) -> None:
    env = Story({"ann": "a", "bob": "b"}, [told({"ann": None, "bob": "b2"}, ended=["ann"]), told(over=True)])
    (game,) = play(chat, lambda: env, games=specs(1))
    assert not any(one.stop_reason.failed for one in game) and [len(one.turns) for one in game] == [1, 2]


class NotFinite(Marked):
    """Gives one game's first reply a log-prob of nan."""

    spoilt = False

    def poll(self) -> Any:
        answers = super().poll()
        key, sampled = answers[0]
        if not self.spoilt and isinstance(sampled, Sampled):
            self.spoilt = True
            answers[0] = (key, Sampled(sampled.token_ids, [np.nan] * len(sampled.token_ids), True, 3))
        return answers


def test_N1_non_finite_log_probs_end_their_own_game(chat: ChatFormat) -> None:
    found = games(chat, lambda step: step, NotFinite(chat, CHECK))
    (failed,) = [game for game in found if any(one.stop_reason.failed for one in game)]
    assert {one.stop_reason for one in failed} == {StopReason.ENGINE_ERROR}
    assert "agent 'player_0': the engine gave non-finite log-probs" in failed[0].error


def test_a_game_that_scripts_end_before_anybody_replies_is_a_game(chat: ChatFormat) -> None:
    """All seats are scripted: nobody is prompted, and the game is over all the same."""
    seats = (("player_0", "script:uniform"), ("player_1", "script:uniform"))
    engine = Marked(chat, CHECK)
    found = play(chat, lambda: GameMultiAgentEnv(SpoiltGame(lambda step: step)), {"red": engine}, specs(3, seats=seats))
    assert found == [[], [], []] and engine.forgotten == []
