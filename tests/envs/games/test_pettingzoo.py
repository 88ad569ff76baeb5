"""The games behind PettingZoo's two interfaces pass its own tests, with junk and with legal replies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pettingzoo.test import api_test, parallel_api_test, seed_test
from pettingzoo.test.seed_test import parallel_seed_test

from ragen_envs.games import TextGameEnv, make_text_game
from ragen_envs.games.pettingzoo import to_aec, to_parallel
from ragen_envs.reply import format_reply
from tests.envs.games.installed import SHORT, installed_games
from tests.envs.games.sweepstake import Sweepstake

A, B = "player_0", "player_1"
NAMES = installed_games()
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
    return [*(make_text_game(name, SHORT.get(name), limits) for name in NAMES), TextGameEnv(Sweepstake())]


@pytest.mark.parametrize("junk", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("rule", ["penalty", "retry", "forfeit"])
def test_games_pass_pettingzoos_tests(rule: str, junk: float) -> None:
    for env in games(illegal_move=rule):
        api_test(to_aec(playable(env, junk)), num_cycles=100)
        parallel_api_test(to_parallel(playable(env, junk)), num_cycles=100)


def test_games_pass_pettingzoos_seed_tests() -> None:
    for name in NAMES:
        seed_test(lambda name=name: to_aec(playable(make_text_game(name, SHORT.get(name)), 0.2)), num_cycles=3)
        parallel_seed_test(
            lambda name=name: to_parallel(playable(make_text_game(name, SHORT.get(name)), 0.2)), num_cycles=3
        )


@pytest.mark.parametrize("name", NAMES)
def test_raw_samples_of_the_space_are_taken(name: str) -> None:
    env = to_aec(make_text_game(name, limits={"illegal_move": "forfeit"}))
    env.reset(seed=0)
    env.step(env.action_space(env.agent_selection).sample())
    assert env.infos[A]["valid"] is False


class Seats:
    """One policy a seat, each with a stream of its own: what a seat says does not depend on when others speak."""

    def __init__(self, env: TextGameEnv, seed: int) -> None:
        self.env = env
        self.streams = {seat: np.random.default_rng([seed, i]) for i, seat in enumerate(env.possible_agents)}
        self.totals = dict.fromkeys(env.possible_agents, 0.0)

    def reply(self, seat: str) -> str:
        stream, legal = self.streams[seat], self.env.game.legal_actions(seat)
        return "junk" if stream.random() < 0.2 else say(legal[int(stream.integers(len(legal)))])

    def paid(self, rewards: dict[str, float]) -> None:
        for seat, reward in rewards.items():
            self.totals[seat] += reward

    def result(self) -> tuple[Any, ...]:
        last = {seat: (self.env.observe(seat), self.env.info(seat)) for seat in self.env.possible_agents}
        return {seat: round(total, 9) for seat, total in self.totals.items()}, last


def plainly(env: TextGameEnv, seed: int) -> tuple[Any, ...]:
    seats = Seats(env, seed)
    env.reset(seed=seed)
    while env.agents:
        seats.paid(env.step({seat: seats.reply(seat) for seat in env.to_act}).rewards)
    return seats.result()


def by_aec(env: TextGameEnv, seed: int) -> tuple[Any, ...]:
    seats, aec = Seats(env, seed), to_aec(env)
    aec.reset(seed=seed)
    for seat in aec.agent_iter():
        _, reward, terminated, truncated, _ = aec.last()
        seats.paid({seat: reward})
        aec.step(None if terminated or truncated else seats.reply(seat))
    return seats.result()


def by_parallel(env: TextGameEnv, seed: int) -> tuple[Any, ...]:
    seats, parallel = Seats(env, seed), to_parallel(env)
    parallel.reset(seed=seed)
    while parallel.agents:
        to_act = env.to_act
        said = {seat: seats.reply(seat) if seat in to_act else "I wait" for seat in parallel.agents}
        seats.paid(parallel.step(said)[1])
    return seats.result()


@pytest.mark.parametrize("rule", ["penalty", "retry", "forfeit"])
@pytest.mark.parametrize("name", NAMES)
def test_all_three_interfaces_play_the_same_game(name: str, rule: str) -> None:
    for seed in range(15):
        envs = [make_text_game(name, SHORT.get(name), {"illegal_move": rule}) for _ in range(3)]
        plain, aec, parallel = (play(env, seed) for play, env in zip((plainly, by_aec, by_parallel), envs, strict=True))
        assert plain == aec == parallel


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


@pytest.mark.parametrize("name", ["kuhn_poker", "rock_paper_scissors", "frozen_lake_pair"])
def test_rllibs_wrappers_play_the_same_game(name: str) -> None:
    """Through RLlib's PettingZooEnv and ParallelPettingZooEnv: the same rewards and ends as without them."""
    from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv, PettingZooEnv

    for seed in range(5):
        plain = plainly(make_text_game(name), seed)
        for wrap, adapt in ((PettingZooEnv, to_aec), (ParallelPettingZooEnv, to_parallel)):
            env = make_text_game(name)
            wrapped, seats = wrap(adapt(env)), Seats(env, seed)
            assert set(wrapped.possible_agents) == set(wrapped.action_space) == set(env.possible_agents)
            observations, _ = wrapped.reset(seed=seed)
            over = False
            while not over:
                assert all(text in wrapped.observation_space[seat] for seat, text in observations.items())
                said = {seat: seats.reply(seat) if seat in env.to_act else "" for seat in observations}
                observations, rewards, terminated, truncated, _ = wrapped.step(said)
                seats.paid(rewards)
                over = terminated["__all__"] or truncated["__all__"]
            assert seats.result() == plain
