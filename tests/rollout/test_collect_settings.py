"""What collecting is told, it does: how many episodes at once, in whose environments, and whether under a limit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from ragen_envs.text import TextEnv
from rllib_ragen.faults.heartbeat import own
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.rollout.collect import collect
from rllib_ragen.rollout.collect_games import collect_games
from rllib_ragen.rollout.engines.base import Engine
from rllib_ragen.rollout.env_pool import EnvPool
from rllib_ragen.rollout.game_answers import GameSpec
from rllib_ragen.rollout.specs import EpisodeSpec
from rllib_ragen.types import Sampled, Sampling, StopReason, Trajectory
from tests.rollout.marked import Marked, Story, told

LAST = {"state": "s", "success": False, "valid": True, "actions": [], "stop_reason": "failed"}


class World:
    """One turn per episode; knows in which threads it was asked."""

    system_prompt = "Rules"
    made: list[World]

    def __init__(self) -> None:
        self.closed = 0
        self.threads: set[str] = set()
        self.made.append(self)

    def reset(self, *, seed: int, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        self.threads.add(threading.current_thread().name)
        return f"world {seed}", {"state": "s"}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return "", 0.5, True, False, LAST

    def close(self) -> None:
        self.closed += 1


@pytest.fixture(autouse=True)
def no_worlds() -> None:
    World.made = []


def play(
    chat: ChatFormat,
    make_env: Any = World,
    count: int = 5,
    limit: int = 1000,
    engine: Engine | None = None,
    **how: Any,
) -> list[Trajectory]:
    return collect(
        [EpisodeSpec(f"g{seed}", seed, seed, seed) for seed in range(count)],
        engine=engine or Marked(chat, "Up"),
        chat=chat,
        make_env=cast("Callable[[], TextEnv]", make_env),
        sampling=Sampling(9, chat.stop_token_ids),
        max_context_tokens=limit,
        **how,
    )


def test_trajectories_come_in_the_order_of_their_specs(chat: ChatFormat) -> None:
    found = play(chat)
    assert [one.group_id for one in found] == [f"g{seed}" for seed in range(5)]
    assert [one.turns[0].prompt for one in found] == [f"world {seed}" for seed in range(5)]


@pytest.mark.parametrize(("how", "at_once"), [({"max_concurrent": 2}, 2), ({"max_concurrent": 200}, 130), ({}, 128)])
def test_so_many_episodes_are_in_flight(chat: ChatFormat, how: dict[str, Any], at_once: int) -> None:
    assert len(play(chat, count=130, **how)) == 130
    assert len(World.made) == at_once
    assert [world.closed for world in World.made] == [1] * at_once


def test_environments_are_closed_after_an_error_too(chat: ChatFormat) -> None:
    class Broken(Marked):
        def poll(self) -> Any:
            raise KeyboardInterrupt

    pool = EnvPool(cast("Callable[[], TextEnv]", World), threaded=False)
    for make_env in (World, pool):
        with pytest.raises(KeyboardInterrupt):
            collect(
                [EpisodeSpec("g", 0, 0, 0)],
                engine=Broken(chat, "Up"),
                chat=chat,
                make_env=cast("Callable[[], TextEnv]", make_env),
                sampling=Sampling(9, chat.stop_token_ids),
                max_context_tokens=1000,
            )
    assert [world.closed for world in World.made] == [1, 1]


def test_a_pool_stays_its_owners(chat: ChatFormat) -> None:
    pool = EnvPool(World, threaded=False)
    play(chat, pool)
    play(chat, pool)
    assert [world.closed for world in World.made] == [0] * 5
    pool.close()
    assert [world.closed for world in World.made] == [1] * 5


def test_without_a_limit_there_are_no_threads_and_with_one_each_environment_has_its_own(chat: ChatFormat) -> None:
    play(chat)
    assert {name for world in World.made for name in world.threads} == {threading.current_thread().name}
    World.made = []
    play(chat, env_timeout_s=60.0)
    assert {name for world in World.made for name in world.threads} == {"env-slot"}


class Late(Marked):
    """Answers a request that nobody waits for any more, before the others."""

    late = True

    def poll(self) -> Any:
        if self.late:
            self.late = False
            return [(99, Sampled(self.ids, [-0.5] * len(self.ids), True, policy_version=3))]
        return super().poll()


def test_a_limit_is_kept_by_looking_every_round(chat: ChatFormat) -> None:
    """It begins, two answers of the environment, and between them a round in which nothing came but the engine's."""
    beats = []
    limits: tuple[dict[str, Any], ...] = ({}, {"env_timeout_s": 60.0})
    for how in limits:
        before = own().beats
        play(chat, count=1, engine=Late(chat, "Up"), **how)
        beats.append(own().beats - before)
    assert beats == [3, 4]


def test_a_context_holds_so_many_tokens(chat: ChatFormat) -> None:
    length = len(chat.first_prompt("Rules", "world 0"))
    (cut,) = play(chat, count=1, limit=length)
    (fits,) = play(chat, count=1, limit=length + 1)
    assert (cut.stop_reason, fits.stop_reason) == (StopReason.CONTEXT_FULL, StopReason.FAILED)


def games(chat: ChatFormat, make_env: Callable[[], Story], count: int, **how: Any) -> list[list[Trajectory]]:
    return collect_games(
        [GameSpec(str(seed), seed, seed, seed) for seed in range(count)],
        engines={"red": Marked(chat, "Up")},
        chat=chat,
        pool=EnvPool(make_env, threaded="env_timeout_s" in how),
        map_agent=lambda agent, spec: "red",
        sampling=Sampling(9, chat.stop_token_ids),
        max_context_tokens=1000,
        **how,
    )


@pytest.mark.parametrize(("how", "at_once"), [({"max_games": 2}, 2), ({"max_games": 99}, 66), ({}, 64)])
def test_so_many_games_are_in_flight(chat: ChatFormat, how: dict[str, int], at_once: int) -> None:
    made: list[Story] = []

    def make() -> Story:
        made.append(Story({"ann": "a"}, [told(rewards={"ann": 1.0}, over=True)], ["ann"]))
        return made[-1]

    found = games(chat, make, 66, **how)
    assert [(one.group_id, one.episode_return) for (one,) in found] == [(f"red/ann/{seed}", 1.0) for seed in range(66)]
    assert len(made) == at_once


def test_a_limit_on_moves_is_kept_by_looking_every_round(chat: ChatFormat) -> None:
    """Two agents reply in two rounds, between which the environment says nothing."""
    beats = []
    for how in ({}, {"env_timeout_s": 60.0}):
        before = own().beats
        games(chat, lambda: Story({"ann": "a", "bob": "b"}, [told(over=True)]), 1, **how)
        beats.append(own().beats - before)
    assert beats == [3, 4]


class Notes:
    """Takes note of what it is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int]] = []

    def created(self, number: int, session: object, slot: object) -> None:
        self.heard.append(("created", number))

    def answered(self, number: int) -> None:
        self.heard.append(("answered", number))

    def ended(self, number: int) -> None:
        self.heard.append(("ended", number))


def test_a_watcher_hears_of_every_episode(chat: ChatFormat) -> None:
    notes = Notes()
    play(chat, count=1, watcher=notes)
    assert notes.heard == [("created", 0), ("answered", 0), ("answered", 0), ("ended", 0)]


class Limits(Marked):
    """Takes note of how long replies may be."""

    def __init__(self, chat: ChatFormat, mark: str) -> None:
        super().__init__(chat, mark)
        self.limits: dict[str, int] = {}

    def add(self, key: int, prompt_ids: Sequence[int], sampling: Sampling) -> None:
        world = "world 1" if "world 1" in self.chat.tokenizer.decode(list(prompt_ids)) else "world 0"
        self.limits[world] = sampling.max_tokens
        super().add(key, prompt_ids, sampling)


def test_an_environment_among_several_has_its_own_way_to_reply_and_its_label(chat: ChatFormat) -> None:
    specs = [EpisodeSpec("g0", 0, 0, 0), EpisodeSpec("g1", 1, 1, 1, env="short", level=2)]
    engine = Limits(chat, "Up")
    found = collect(
        specs,
        engine=engine,
        chat=chat,
        make_env=cast("Callable[[], TextEnv]", World),
        sampling=Sampling(9, chat.stop_token_ids),
        max_context_tokens=1000,
        own={"short": (chat, Sampling(1, chat.stop_token_ids))},
    )
    assert [(one.env, one.level) for one in found] == [("", -1), ("short", 2)]
    assert engine.limits == {"world 0": 9, "world 1": 1}
