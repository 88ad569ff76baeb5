"""One game by hand: what an environment's answers do to every agent's trajectory."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ragen_envs.seeds import Stream, seed_of
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.rollout.collect_games import collect_games
from rllib_ragen.rollout.conversation import Sampler
from rllib_ragen.rollout.engines.base import Engine
from rllib_ragen.rollout.env_pool import EnvPool
from rllib_ragen.rollout.episode_loop import EpisodeLoop
from rllib_ragen.rollout.game_answers import GameSpec
from rllib_ragen.rollout.game_session import GameSession, PolicyMappingError
from rllib_ragen.types import Sampling, StopReason, Trajectory
from tests.rollout.marked import Marked, Step, Tale, told

SPEC = GameSpec("g", env_seed=5, outcome_seed=6, sampling_seed=7)
POLICY_OF = {"ann": "red", "bob": "blue", "cat": "red", "dan": "script:uniform"}
HALF: Any = "\ud83d"


def session(
    chat: ChatFormat,
    tale: Tale,
    *,
    spec: GameSpec = SPEC,
    map_agent: Callable[[str, GameSpec], str] = lambda agent, spec: POLICY_OF[agent],
    limit: int = 1000,
    mute: bool = False,
    fails_on: str | None = None,
) -> tuple[GameSession, dict[str, Marked]]:
    """A game that has been played to its end, and the engines that played it."""
    engines = {"red": Marked(chat, "crimson", fails_on), "blue": Marked(chat, "azure")}
    sampling = Sampling(9, chat.stop_token_ids)
    game = GameSession(spec, {n: Sampler(e, chat, sampling, limit) for n, e in engines.items()}, map_agent)
    if mute:
        game.mute_when_full = True
    EpisodeLoop(engines, EnvPool(lambda: tale, threaded=False), max_episodes=1).run([game])
    return game, engines


def played(chat: ChatFormat, tale: Tale, **how: Any) -> list[Trajectory]:
    return session(chat, tale, **how)[0].trajectories


def ends(trajectories: list[Trajectory]) -> dict[str, StopReason]:
    return {one.agent_id: one.stop_reason for one in trajectories}


# Ann and Bob at once; then Cat alone; then it is over, and Ann has won.
THREE: tuple[Step, ...] = (
    told({"cat": "for cat"}, {"ann": 1.0, "cat": 0.25}, infos={"cat": {"state": "c0"}, "ann": {"valid": False}}),
    told(
        rewards={"ann": 2.0, "bob": 4.0},
        infos={"ann": {"success": True, "outcome": "win"}, "cat": {"actions": []}},
        over=True,
    ),
)
ALL = ("ann", "bob", "cat")


def test_every_agent_has_a_trajectory_of_its_own(chat: ChatFormat) -> None:
    tale = Tale({"ann": "for ann", "bob": "for bob"}, *THREE, agents=ALL, ann={"state": "a0"})
    tale.instance_key = "deal 9"
    ann, bob, cat = played(chat, tale)
    assert tale.replies == [{"ann": "crimson", "bob": "azure"}, {"cat": "crimson"}]
    assert [(one.agent_id, one.module_id, one.group_id) for one in (ann, bob, cat)] == [
        ("ann", "red", "red/ann/g"),
        ("bob", "blue", "blue/bob/g"),
        ("cat", "red", "red/cat/g"),
    ]
    assert {(one.env_seed, one.outcome_seed, one.instance_key) for one in (ann, bob, cat)} == {(5, 6, "deal 9")}
    turns = [
        (t.prompt, t.state, t.reply, t.reward, t.valid, t.num_actions) for one in (ann, bob, cat) for t in one.turns
    ]
    assert turns == [
        ("for ann", "a0", "crimson", 3.0, False, 1),
        ("for bob", "", "azure", 4.0, True, 1),
        ("for cat", "c0", "crimson", 0.25, True, 0),
    ]
    assert ann.turns[0].prompt_ids.tolist() == chat.first_prompt("rules", "for ann")
    assert [(one.success, one.outcome) for one in (ann, bob, cat)] == [(True, "win"), (False, ""), (False, "")]
    assert list(ends([ann, bob, cat]).values()) == [StopReason.GOAL, StopReason.FAILED, StopReason.FAILED]


def test_agents_sample_from_seeds_of_their_own(chat: ChatFormat) -> None:
    seeds: list[int | None] = []

    class Noting(Marked):
        def add(self, key: int, prompt_ids: Sequence[int], sampling: Sampling) -> None:
            seeds.append(sampling.seed)
            super().add(key, prompt_ids, sampling)

    noting: dict[str, Engine] = {"red": Noting(chat, "crimson"), "blue": Noting(chat, "azure")}
    tale = Tale({"ann": "a", "cat": "c"}, told({"cat": "again"}), told(over=True), agents=ALL)
    collect_games(
        [SPEC],
        engines=noting,
        chat=chat,
        pool=EnvPool(lambda: tale, threaded=False),
        map_agent=lambda agent, spec: POLICY_OF[agent],
        sampling=Sampling(9, chat.stop_token_ids),
        max_context_tokens=1000,
    )
    # Ann is agent 0, Bob, who has not been prompted, 1, and Cat 2.
    assert seeds == [seed_of(Stream.TURN_SAMPLING, 7, *own) for own in ((0, 0), (2, 0), (2, 1))]


def test_an_agent_is_mapped_once_when_it_is_first_heard_of(chat: ChatFormat) -> None:
    asked: list[str] = []

    def map_agent(agent: str, spec: GameSpec) -> str:
        assert spec == SPEC
        asked.append(agent)
        return POLICY_OF[agent]

    steps = (told({"ann": "again"}, {"cat": 1.0, "dan": 5.0}), told({"bob": "b"}, {"dan": 1.0}), told(over=True))
    found = played(chat, Tale({"ann": "a"}, *steps, agents=()), map_agent=map_agent)
    assert asked == ["ann", "cat", "dan", "bob"], "the environment tells no possible_agents"
    assert [one.agent_id for one in found] == ["ann", "cat", "bob"]
    asked.clear()
    played(chat, Tale({"ann": "a"}, *steps, agents=("dan", "bob", "cat", "ann")), map_agent=map_agent)
    assert asked == ["dan", "bob", "cat", "ann"]


def test_a_seat_that_the_spec_gives_is_not_mapped(chat: ChatFormat) -> None:
    spec = replace(SPEC, seats=(("ann", "blue"), ("cat", "script:uniform")))
    ann, bob = played(chat, Tale({"ann": "a", "bob": "b"}, told(over=True), agents=ALL), spec=spec)
    assert (ann.module_id, ann.group_id, bob.module_id) == ("blue", "blue/ann/g", "blue")


@pytest.mark.parametrize(
    ("map_agent", "error"),
    [
        (lambda agent, spec: "green", "multi_agent: agent 'ann' is mapped to policy 'green'; allowed: blue, red"),
        (lambda agent, spec: {}[agent], "multi_agent: agent 'ann' cannot be mapped: 'ann'"),
        (lambda agent, spec: ["red"], "multi_agent: agent 'ann' cannot be mapped: "),
    ],
)
def test_an_agent_without_a_policy_is_a_mistake_of_the_config(chat: ChatFormat, map_agent: Any, error: str) -> None:
    with pytest.raises(PolicyMappingError, match=f"^{re.escape(error)}"):
        session(chat, Tale({"ann": "a"}), map_agent=map_agent)


@pytest.mark.parametrize(
    ("steps", "error"),
    [
        ([told({"eve": "who"})], "unknown agent 'eve'; the environment's possible_agents: ann, bob, cat"),
        ([told(rewards={"eve": 1.0})], "unknown agent 'eve'"),
        ([told({"ann": "a"}, ended=["eve"])], "unknown agent 'eve'"),
        ([told(ended=["eve"], over=True)], "unknown agent 'eve'"),
        ([told({"dan": "d"})], "unknown agent 'dan'"),
        ([told({"bob": "b"}, ended=["ann"]), told({"ann": "again"})], "agent 'ann' is prompted after its end"),
    ],
)
def test_what_breaks_the_rules_ends_the_game_for_all(chat: ChatFormat, steps: list[Step], error: str) -> None:
    found = played(chat, Tale({"ann": "a", "bob": "b"}, *steps, agents=ALL))
    assert set(ends(found).values()) == {StopReason.ENV_ERROR} and len(found) == 3
    assert {one.error for one in found} == {found[0].error} and error in found[0].error


def test_whom_a_script_plays_is_not_prompted(chat: ChatFormat) -> None:
    (ann,) = played(chat, Tale({"ann": "a"}, told({"dan": "d"}), agents=("ann", "dan")))
    assert (ann.stop_reason, ann.error) == (StopReason.ENV_ERROR, "agent 'dan' is prompted, but a script plays it")


def test_a_scripts_rewards_and_end_are_nobodys(chat: ChatFormat) -> None:
    steps = (told({"ann": "again"}, {"dan": 5.0}, ended=["dan"]), told(rewards={"ann": 1.0, "dan": 5.0}, over=True))
    (ann,) = played(chat, Tale({"ann": "a"}, *steps, agents=("ann", "dan")))
    assert [turn.reward for turn in ann.turns] == [0.0, 1.0] and ann.stop_reason is StopReason.FAILED


@pytest.mark.parametrize(("idle", "reason"), [(1000, StopReason.FAILED), (1001, StopReason.ENV_ERROR)])
def test_nobody_is_prompted_for_so_long_and_no_longer(chat: ChatFormat, idle: int, reason: StopReason) -> None:
    steps = [*[told()] * idle, told({"ann": "again"}), told(over=True)]
    (ann,) = played(chat, Tale({"ann": "a"}, *steps, agents=("ann",)))
    assert ann.stop_reason is reason
    assert reason is StopReason.FAILED or "nobody was prompted in 1000 steps in a row" in ann.error


@pytest.mark.parametrize(("idle", "reason"), [(999, StopReason.FAILED), (1000, StopReason.ENV_ERROR)])
def test_an_opening_that_prompts_nobody_is_the_first_such_step(chat: ChatFormat, idle: int, reason: StopReason) -> None:
    steps = [*[told()] * idle, told({"ann": "a"}), told(over=True)]
    (ann,) = played(chat, Tale({}, *steps, agents=("ann",)))
    assert ann.stop_reason is reason


def test_the_silent_steps_are_counted_anew_after_a_prompt(chat: ChatFormat) -> None:
    steps = [*[told()] * 600, told({"ann": "again"}), *[told()] * 600, told(over=True)]
    (ann,) = played(chat, Tale({"ann": "a"}, *steps, agents=("ann",)))
    assert ann.stop_reason is StopReason.FAILED and len(ann.turns) == 2


def test_what_an_info_says_is_of_the_turn_before_it(chat: ChatFormat) -> None:
    infos: list[dict[str, Any]] = [{"actions": ["Up"] * n, "valid": n % 2 == 0} for n in (2, 3, 4)]
    steps = [told({"ann": "on"}, infos={"ann": info}) for info in infos[:2]]
    (ann,) = played(chat, Tale({"ann": "a"}, *steps, told(infos={"ann": infos[2]}, over=True), agents=("ann",)))
    assert [(turn.num_actions, turn.valid) for turn in ann.turns] == [(2, True), (3, False), (4, True)]


def test_an_agent_that_ends_early_keeps_its_end_and_the_others_go_on(chat: ChatFormat) -> None:
    won = {"ann": {"success": True, "outcome": "win"}}
    steps = (told({"bob": "b2"}, ended=["ann"], infos=won), told({"bob": "b3"}), told(cut=["bob"]))
    ann, bob = played(chat, Tale({"ann": "a", "bob": "b"}, *steps))
    assert (ann.stop_reason, ann.success, ann.outcome, len(ann.turns)) == (StopReason.GOAL, True, "win", 1)
    assert (bob.stop_reason, bob.success, len(bob.turns)) == (StopReason.MAX_TURNS, False, 3)


def test_what_is_said_of_an_ended_agent_later_does_not_change_its_end(chat: ChatFormat) -> None:
    steps = (
        told({"bob": "b2"}, ended=["ann"]),
        told(ended=["ann"], infos={"ann": {"success": True}, "bob": {"outcome": "draw"}}, over=True),
    )
    ann, bob = played(chat, Tale({"ann": "a", "bob": "b"}, *steps))
    assert (ann.stop_reason, ann.success, bob.outcome) == (StopReason.FAILED, False, "draw")


def test_who_is_said_to_go_on_goes_on(chat: ChatFormat) -> None:
    on: Step = ({"ann": "a2"}, {}, {"ann": False, "bob": True, "__all__": False}, {"ann": False}, {})
    ann, bob = played(chat, Tale({"ann": "a", "bob": "b"}, on, told(over=True)))
    assert (len(ann.turns), len(bob.turns)) == (2, 1)


def test_a_game_is_over_when_all_agents_have_ended(chat: ChatFormat) -> None:
    tale = Tale({"ann": "a", "bob": "b"}, told({"bob": "b2"}, ended=["ann"]), told(ended=["bob"]), told({"bob": "b3"}))
    assert list(ends(played(chat, tale)).values()) == [StopReason.FAILED] * 2
    assert len(tale.replies) == 2


def test_a_game_that_scripts_play_alone_goes_to_its_end(chat: ChatFormat) -> None:
    tale = Tale({}, told(), told(), told(over=True), agents=("dan",))
    assert played(chat, tale) == [] and len(tale.replies) == 3


def test_a_full_context_cuts_off_all_that_have_not_ended(chat: ChatFormat) -> None:
    steps = (told({"bob": "b2"}, ended=["ann"]), told({"bob": "b " * 200}))
    ann, bob = played(chat, Tale({"ann": "a", "bob": "b"}, *steps), limit=200)
    assert ends([ann, bob]) == {"ann": StopReason.FAILED, "bob": StopReason.CONTEXT_FULL}
    assert ann.error == bob.error == ""


def test_a_mute_agent_says_nothing_and_the_game_goes_on(chat: ChatFormat) -> None:
    tale = Tale({"ann": "a", "bob": "b " * 200}, told(over=True))
    ann, bob = played(chat, tale, limit=200, mute=True)
    assert tale.replies == [{"ann": "crimson", "bob": ""}]
    assert [one.turns[0].reply for one in (ann, bob)] == ["crimson", ""]


def test_an_error_counts_for_all_also_for_those_that_have_ended(chat: ChatFormat) -> None:
    steps = (told({"bob": "b2", "cat": "fail"}, ended=["ann"]),)
    found = played(chat, Tale({"ann": "a", "bob": "b"}, *steps, agents=ALL), fails_on="fail")
    assert set(ends(found).values()) == {StopReason.ENGINE_ERROR}
    assert {one.error for one in found} == {"agent 'cat': this one fails"}


def test_a_game_that_fails_before_anybody_is_heard_of_is_told_once(chat: ChatFormat) -> None:
    (alone,) = played(chat, Tale({"ann": HALF}))
    assert (alone.stop_reason, alone.module_id) == (StopReason.ENV_ERROR, "blue")
    assert (alone.group_id, alone.env_seed, alone.outcome_seed, alone.turns) == ("g", 5, 6, [])
    assert "agent 'ann' a prompt that is no text" in alone.error
    game = GameSession(SPEC, {}, lambda agent, spec: "red")
    game.stop(StopReason.CONTEXT_FULL)
    assert game.trajectories == []
    game.stop(StopReason.ENV_ERROR, "broken")
    assert [(one.module_id, one.error) for one in game.trajectories] == [("", "broken")]


def test_a_game_that_failed_after_somebody_was_heard_of_is_told_of_them_alone(chat: ChatFormat) -> None:
    found = played(chat, Tale({"ann": "a"}, told({"ann": 3}), agents=("ann",)))
    assert [one.agent_id for one in found] == ["ann"]
