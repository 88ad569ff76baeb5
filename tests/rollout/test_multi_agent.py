"""Several agents: each has its own tokens and rewards, and whatever goes wrong in one game stays there."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from transformers import LlamaForCausalLM

from ragen_envs.games import make_text_game
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.rollout.collect_games import collect_games
from rllib_ragen.rollout.engines.base import Engine
from rllib_ragen.rollout.engines.hf import HFEngine
from rllib_ragen.rollout.env_pool import EnvPool
from rllib_ragen.rollout.game_answers import GameSpec
from rllib_ragen.rollout.game_episodes import LiveGame, to_trajectories
from rllib_ragen.rollout.game_session import PolicyMappingError
from rllib_ragen.rollout.scripted_seats import GameMultiAgentEnv
from rllib_ragen.types import Sampling, StopReason, Trajectory
from tests.rollout.build import make_model, plain_copy, reply_logprobs
from tests.rollout.marked import Marked, Step, Story, told

POLICY_OF = {"ann": "red", "bob": "blue", "cat": "red"}


def specs(count: int = 4, **more: Any) -> list[GameSpec]:
    return [GameSpec(str(seed), seed, seed, sampling_seed=seed, **more) for seed in range(count)]


def play(
    chat: ChatFormat,
    make_env: Callable[[], Any],
    engines: dict[str, Engine] | None = None,
    games: list[GameSpec] | None = None,
    map_agent: Callable[[str, GameSpec], str] = lambda agent, spec: POLICY_OF[agent],
    **settings: Any,
) -> list[list[Trajectory]]:
    defaults: dict[str, Any] = {"max_context_tokens": 1024, "max_games": 3}
    return collect_games(
        specs() if games is None else games,
        engines=engines or {"red": Marked(chat, "crimson"), "blue": Marked(chat, "azure")},
        chat=chat,
        pool=EnvPool(make_env, threaded=True),
        map_agent=map_agent,
        sampling=Sampling(12, chat.stop_token_ids),
        **(defaults | settings),
    )


def story(first: dict[str, Any], *steps: Step, agents: tuple[str, ...] = ("ann", "bob")) -> Callable[[], Story]:
    return lambda: Story(first, steps, agents)


# Ann and Bob at once; then Cat alone; then Ann and Cat; then it is over.
THREE = story(
    {"ann": "for ann", "bob": "for bob"},
    told({"cat": "for cat"}, {"ann": 1.0}),
    told({"ann": "for ann again", "cat": "for cat again"}, {"bob": 10.0, "cat": 0.5}),
    told(rewards={"ann": 2.0, "bob": 20.0, "cat": 4.0}, infos={"ann": {"success": True}}, over=True),
    agents=("ann", "bob", "cat"),
)


def test_trajectories_of_different_agents_never_mix(chat: ChatFormat) -> None:
    for seed, game in enumerate(play(chat, THREE, games=specs(7))):
        assert [t.agent_id for t in game] == ["ann", "bob", "cat"]
        for trajectory in game:
            other = {"red": "azure", "blue": "crimson"}[trajectory.module_id]
            text = chat.tokenizer.decode(trajectory.token_ids().tolist())
            assert other not in text
            assert all(f"for {name}" not in text for name in POLICY_OF if name != trajectory.agent_id)
            assert f"game {seed}" in text or trajectory.agent_id == "cat"
            assert all(
                turn.reply == {"red": "crimson", "blue": "azure"}[trajectory.module_id] for turn in trajectory.turns
            )
            assert trajectory.group_id == f"{trajectory.module_id}/{trajectory.agent_id}/{seed}"


def test_agents_act_at_different_times_and_rewards_go_to_what_they_did_last(chat: ChatFormat) -> None:
    ann, bob, cat = play(chat, THREE)[0]
    assert [turn.reward for turn in ann.turns] == [1.0, 2.0]
    assert [turn.reward for turn in bob.turns] == [30.0]
    assert [turn.reward for turn in cat.turns] == [0.5, 4.0]
    assert (ann.stop_reason, bob.stop_reason) == (StopReason.GOAL, StopReason.FAILED)


def test_replies_reach_the_environment_under_the_agents_own_names(chat: ChatFormat) -> None:
    made: list[Story] = []

    def make() -> Story:
        made.append(THREE())
        return made[-1]

    play(chat, make, games=specs(1))
    assert made[0].replies == [
        {"ann": "crimson", "bob": "azure"},
        {"cat": "crimson"},
        {"ann": "crimson", "cat": "crimson"},
    ]


def test_an_agent_that_dies_early_keeps_its_turns_and_the_others_go_on(chat: ChatFormat) -> None:
    env = story(
        {"ann": "a", "bob": "b"},
        told(
            {"ann": "last words", "bob": "b2"}, {"ann": -1.0}, ended=["ann"], infos={"ann": {"stop_reason": "failed"}}
        ),
        told({"bob": "b3"}, {"bob": 1.0}),
        told(rewards={"bob": 1.0}, cut=["bob"], infos={"bob": {"outcome": "win"}}),
    )
    ann, bob = play(chat, env)[0]
    assert (len(ann.turns), ann.episode_return, ann.stop_reason) == (1, -1.0, StopReason.FAILED)
    assert (len(bob.turns), bob.episode_return, bob.stop_reason) == (3, 2.0, StopReason.MAX_TURNS)
    assert bob.outcome == "win"


def test_rewards_before_the_first_reply_and_without_any_are_not_lost(chat: ChatFormat) -> None:
    env = story(
        {"ann": "a"},
        told({"bob": "b"}, {"bob": 3.0, "cat": 7.0}),
        told(rewards={"bob": 1.0, "cat": -1.0}, over=True),
        agents=("ann", "bob", "cat"),
    )
    _, bob, cat = play(chat, env)[0]
    assert [turn.reward for turn in bob.turns] == [4.0]
    assert (cat.episode_return, cat.num_reply_tokens, cat.num_tokens) == (6.0, 0, 0)


@pytest.mark.parametrize(
    ("steps", "error"),
    [
        ([told({"eve": "who am I"})], "unknown agent 'eve'.*ann, bob"),
        ([told(rewards={"eve": 1.0})], "unknown agent 'eve'"),
        ([told({"bob": "b2"}, ended=["ann"]), told({"ann": "again"})], "'ann' is prompted after its end"),
        ([told({"ann": 3})], "prompted with a int, not with text"),
        ([told({"ann": "a"}, {"ann": float("nan")})], "'ann' got a reward of nan"),
        ([told()], "nobody was prompted in 1000 steps in a row"),
    ],
)
def test_an_environment_that_breaks_the_rules_ends_its_own_game(
    chat: ChatFormat, steps: list[Step], error: str
) -> None:
    class OneIsBad(Story):
        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
            self.steps = steps if seed == 0 else [told(over=True)]
            return super().reset(seed=seed)

    games = play(chat, lambda: OneIsBad({"ann": "a", "bob": "b"}, []))
    assert [t.stop_reason for t in games[0]] == [StopReason.ENV_ERROR] * 2
    for trajectory in games[0]:
        assert re.search(error, trajectory.error)
    assert not any(t.stop_reason.failed for t in games[1])


def test_an_agent_without_a_policy_is_a_mistake_of_the_config(chat: ChatFormat) -> None:
    with pytest.raises(PolicyMappingError, match="'ann' is mapped to policy 'green'; allowed: blue, red"):
        play(chat, THREE, map_agent=lambda agent, spec: "green")


def test_the_spec_goes_before_the_mapping(chat: ChatFormat) -> None:
    games = play(chat, THREE, games=specs(1, seats=(("ann", "blue"),)))
    assert [t.module_id for t in games[0]] == ["blue", "blue", "red"]


def test_a_failed_request_ends_its_own_game_for_all_agents(chat: ChatFormat) -> None:
    engines: dict[str, Engine] = {"red": Marked(chat, "crimson", fails_on="game 2"), "blue": Marked(chat, "azure")}
    for seed, game in enumerate(play(chat, THREE, engines)):
        reasons = {t.stop_reason for t in game}
        assert (reasons == {StopReason.ENGINE_ERROR}) == (seed == 2)
        assert all(("this one fails" in t.error) == (seed == 2) for t in game)
    assert not any(engine.waiting for engine in engines.values() if isinstance(engine, Marked))


def test_a_full_context_cuts_the_game_off_for_all(chat: ChatFormat) -> None:
    endless = story({"ann": "a", "bob": "b"}, told({"ann": "a " * 30, "bob": "b"}, {"bob": 1.0}))
    ann, bob = play(chat, endless, max_context_tokens=200)[0]
    assert ann.stop_reason is bob.stop_reason is StopReason.CONTEXT_FULL
    assert ann.num_tokens <= 200 and bob.episode_return == len(bob.turns)


@pytest.fixture(scope="module")
def models() -> dict[str, LlamaForCausalLM]:
    return {"red": make_model(1), "blue": make_model(2)}


def table(name: str = "tic_tac_toe", **limits: Any) -> Callable[[], GameMultiAgentEnv]:
    limits = {"prompt_style": "brief", "max_turns": 3, **limits}
    return lambda: GameMultiAgentEnv(make_text_game(name, limits=limits))


def real_engines(models: dict[str, LlamaForCausalLM]) -> dict[str, Engine]:
    return {name: HFEngine(model, max_context=1024, max_rows=8) for name, model in models.items()}


def by_seat(agent: str, spec: GameSpec) -> str:
    return {"player_0": "red", "player_1": "blue"}[agent]


def test_each_agents_stream_is_what_its_own_model_saw(chat: ChatFormat, models: dict[str, LlamaForCausalLM]) -> None:
    """Token-exact: a plain forward pass of the agent's own model over the stream gives the behaviour log-probs."""
    games = play(chat, table(), real_engines(models), map_agent=by_seat)
    for trajectory in (t for game in games for t in game):
        model = plain_copy(models[trajectory.module_id])
        stream = trajectory.token_ids()
        start = 0
        for turn in trajectory.turns:
            start += len(turn.prompt_ids)
            expected = reply_logprobs(model, stream[:start].tolist(), turn.reply_ids.tolist())
            np.testing.assert_allclose(turn.logprobs, expected, atol=2e-4)
            start += len(turn.reply_ids)


@pytest.mark.parametrize("settings", [{"max_games": 1}, {"max_games": 8}, {"env_timeout_s": 30.0}])
def test_a_game_depends_on_its_spec_alone(
    chat: ChatFormat, models: dict[str, LlamaForCausalLM], settings: dict[str, Any]
) -> None:
    usual = play(chat, table(), real_engines(models), map_agent=by_seat)
    other = play(chat, table(), real_engines(models), map_agent=by_seat, **settings)
    flat = [[t.token_ids().tolist() for t in game] for game in usual]
    assert flat == [[t.token_ids().tolist() for t in game] for game in other]
    assert len({str(game) for game in flat}) == len(flat), "every game has seeds of its own"


@pytest.mark.parametrize("name", ["tic_tac_toe", "rock_paper_scissors", "kuhn_poker"])
def test_scripted_seats_play_and_are_never_seen(chat: ChatFormat, name: str) -> None:
    mine = "player_1"
    games = play(
        chat,
        table(name, max_turns=None),
        {"red": Marked(chat, "no legal action")},
        specs(6, seats=(("player_0", "script:uniform"),)),
        lambda agent, spec: "red",
    )
    for game in games:
        assert [t.agent_id for t in game] == [mine]
        (own,) = game
        assert own.outcome in ("win", "draw", "loss") and not own.stop_reason.failed
        # Illegal each time: a random move was played and paid for, and the script is not paid for it.
        assert all(turn.reward <= 2.0 - 0.1 for turn in own.turns)
        assert not any(turn.valid for turn in own.turns)


def test_minimax_never_loses_to_random_moves(chat: ChatFormat) -> None:
    games = play(
        chat,
        table(max_turns=None, illegal_move="penalty"),
        {"red": Marked(chat, "junk")},
        specs(12, seats=(("player_0", "script:minimax"),)),
        lambda agent, spec: "red",
    )
    assert {t.outcome for game in games for t in game} <= {"loss", "draw"}


def test_games_survive_as_rllib_episodes(chat: ChatFormat) -> None:
    for game in play(chat, THREE):
        episode = LiveGame("7").close(game)
        assert episode.module_for("bob") == "blue" and episode.agent_steps() == sum(len(t.turns) for t in game)
        assert [vars(t) | {"turns": 0} for t in to_trajectories([episode])] == [vars(t) | {"turns": 0} for t in game]
        again = to_trajectories([episode])
        assert [t.token_ids().tolist() for t in again] == [t.token_ids().tolist() for t in game]
