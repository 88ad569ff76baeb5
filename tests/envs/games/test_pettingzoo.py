"""The games behind PettingZoo's two interfaces pass its own tests, with junk and with legal replies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pettingzoo.test import api_test, parallel_api_test, seed_test
from pettingzoo.test.seed_test import parallel_seed_test

from envs.games import TextGameEnv, game_names, make_text_game
from envs.games.certify import random_replies
from envs.games.pettingzoo import to_aec, to_parallel
from envs.reply import format_reply
from tests.envs.games.sweepstake import Sweepstake

A, B = "player_0", "player_1"
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # PettingZoo expects boxes and arrays, ours is text


def say(action: str) -> str:
    return format_reply([action], "thought")


def playable(env: TextGameEnv, junk: float) -> TextGameEnv:
    """Lets the action spaces sample replies that are legal but for a share of junk."""
    rng = np.random.default_rng(0)
    for seat in env.possible_agents:

        def sample(*_: Any, seat: str = seat) -> str:
            legal = env.game.legal_actions(seat)
            return say(legal[int(rng.integers(len(legal)))]) if legal and rng.random() >= junk else "junk"

        env.action_space(seat).sample = sample  # type: ignore[method-assign, assignment]
    return env


def games(**limits: Any) -> list[TextGameEnv]:
    return [*(make_text_game(name, limits=limits) for name in game_names()), TextGameEnv(Sweepstake())]


@pytest.mark.parametrize("junk", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("rule", ["penalty", "retry", "forfeit"])
def test_games_pass_pettingzoos_tests(rule: str, junk: float) -> None:
    for env in games(illegal_move=rule):
        api_test(to_aec(playable(env, junk)), num_cycles=100)
        parallel_api_test(to_parallel(playable(env, junk)), num_cycles=100)


def test_games_pass_pettingzoos_seed_tests() -> None:
    for name in game_names():
        seed_test(lambda name=name: to_aec(playable(make_text_game(name), 0.2)), num_cycles=3)
        parallel_seed_test(lambda name=name: to_parallel(playable(make_text_game(name), 0.2)), num_cycles=3)


@pytest.mark.parametrize("name", game_names())
def test_raw_samples_of_the_space_are_taken(name: str) -> None:
    env = to_aec(make_text_game(name, limits={"illegal_move": "forfeit"}))
    env.reset(seed=0)
    env.step(env.action_space(env.agent_selection).sample())
    assert env.infos[A]["valid"] is False


@pytest.mark.parametrize("name", game_names())
def test_all_three_interfaces_play_the_same_game(name: str) -> None:
    def totals(seed: int) -> list[dict[str, float]]:
        plain, inner_aec, inner_parallel = (make_text_game(name) for _ in range(3))
        aec, parallel = to_aec(inner_aec), to_parallel(inner_parallel)
        sums = [dict.fromkeys(plain.possible_agents, 0.0) for _ in range(3)]
        plain.reset(seed=seed)
        aec.reset(seed=seed)
        parallel.reset(seed=seed)
        rng = np.random.default_rng(seed)
        while plain.agents:
            replies = random_replies(plain, rng)
            if rng.random() < 0.3:
                replies[next(iter(replies))] = "junk"
            for seat, text in replies.items():
                assert aec.agent_selection == seat and aec.observe(seat) == plain.observe(seat)
                aec.step(text)
                for each, reward in aec.rewards.items():
                    sums[1][each] += reward
            for total, rewards in zip(sums[::2], (plain.step(replies)[1], parallel.step(replies)[1]), strict=True):
                for each, reward in rewards.items():
                    total[each] += reward
        assert parallel.agents == []
        return sums

    for seed in range(10):
        one, two, three = totals(seed)
        assert one == three == pytest.approx(two)


def test_aec_hides_moves_made_at_once_and_hands_out_the_final_reward() -> None:
    env = to_aec(make_text_game("rock_paper_scissors", {"rounds": 1}))
    env.reset(seed=0, options={"split": "test", "anything": 1})
    before = env.observe(B)
    env.step(say("Rock"))
    assert env.agent_selection == B and env.observe(B) == before and env.last()[1] == 0.0
    with pytest.raises(ValueError, match="player_1 must reply"):
        env.step(None)
    env.step(say("Scissors"))
    assert env.agent_selection == A and env.last()[1:4] == (1.0, True, False)
    env.step(None)
    assert env.agent_selection == B and env.last()[1:4] == (-1.0, True, False)
    env.step(None)
    assert env.agents == []


def test_aec_removes_a_seat_that_ends_early() -> None:
    env = to_aec(TextGameEnv(Sweepstake()))
    env.reset(seed=0)
    for action in ("1", "2", "2"):
        env.step(say(action))
    assert env.agent_selection == A and env.last()[1:3] == (-1.0, True)
    env.step(None)
    assert env.agents == [B, "player_2"] and env.agent_selection == B and not env.last()[2]


def test_parallel_ignores_who_is_not_to_act_and_demands_who_is() -> None:
    env = to_parallel(make_text_game("tic_tac_toe"))
    observations, _ = env.reset(seed=0)
    assert observations[B].endswith("Wait for the others")
    observations, *_ = env.step({A: say("A1"), B: say("A2")})
    assert "B . . ." in observations[B] and "A X . ." in observations[B] and observations[A].endswith("others")
    with pytest.raises(ValueError, match="player_1 must reply; got replies of player_0"):
        env.step({A: say("A1")})
