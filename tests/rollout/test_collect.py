"""Faults L1-L5 and N1: whatever goes wrong in one episode is that episode's own affair."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM

from ragen_envs.registry import make_task
from ragen_envs.seeds import Stream, seed_of
from ragen_envs.text import TextEnv, TextLimits
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.rollout.collect import collect
from rllib_ragen.rollout.engines.hf import HFEngine
from rllib_ragen.rollout.env_pool import EnvPool
from rllib_ragen.rollout.specs import EpisodeSpec
from rllib_ragen.types import Sampling, StopReason, Trajectory
from tests.patience import PATIENCE_S, wait_until
from tests.rollout.build import make_model

BAD_SEED = 3


class Sokoban(TextEnv):
    """Real Sokoban that counts its makings and closings, and has one evil instance."""

    made: int
    closed: int

    def __init__(self, evil: Callable[[], None] = lambda: None, evil_on: str = "step") -> None:
        limits = TextLimits(max_turns=3, prompt_style="brief")
        super().__init__(make_task("sokoban"), limits)
        self.evil, self.evil_on, self.seed = evil, evil_on, -1
        type(self).made += 1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self.seed = -1 if seed is None else seed
        if self.seed == BAD_SEED and self.evil_on == "reset":
            self.evil()
        return super().reset(seed=seed, options=options)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self.seed == BAD_SEED and self.evil_on == "step":
            self.evil()
        return super().step(action)

    def close(self) -> None:
        type(self).closed += 1
        super().close()


@pytest.fixture(autouse=True)
def fresh_counters() -> None:
    Sokoban.made = Sokoban.closed = 0


@pytest.fixture
def engine() -> HFEngine:
    return HFEngine(make_model(), max_context=1024, max_rows=16)


def specs(count: int = 8) -> list[EpisodeSpec]:
    """One episode per seed 0…count−1."""
    return [EpisodeSpec(f"g{seed}", seed, seed, sampling_seed=seed) for seed in range(count)]


def play(
    engine: HFEngine, chat: ChatFormat, make_env: Any = Sokoban, count: int = 8, **settings: Any
) -> list[Trajectory]:
    """Plays `count` episodes with short replies."""
    defaults: dict[str, Any] = {"max_context_tokens": 1024, "max_concurrent": 4}
    sampling = Sampling(12, chat.stop_token_ids)
    return collect(
        specs(count), engine=engine, chat=chat, make_env=make_env, sampling=sampling, **(defaults | settings)
    )


def assert_only_the_bad_one_failed(trajectories: list[Trajectory], reason: StopReason) -> Trajectory:
    """Every other episode ran to its end; returns the failed one."""
    for seed, trajectory in enumerate(trajectories):
        assert trajectory.env_seed == seed
        assert trajectory.stop_reason.failed == (seed == BAD_SEED)
        if seed != BAD_SEED:
            assert len(trajectory.turns) == 3 and trajectory.stop_reason is StopReason.MAX_TURNS
    assert trajectories[BAD_SEED].stop_reason is reason
    return trajectories[BAD_SEED]


def test_trajectories_come_in_the_order_of_their_specs_and_carry_the_environments_verdict(
    engine: HFEngine, chat: ChatFormat
) -> None:
    for seed, trajectory in enumerate(play(engine, chat, count=10)):
        assert (trajectory.group_id, trajectory.env_seed) == (f"g{seed}", seed)
        env = Sokoban()
        message, info = env.reset(seed=seed, options={"split": "train", "outcome_seed": seed})
        for turn in trajectory.turns:
            assert (turn.prompt, turn.state) == (message, info["state"])
            message, reward, _, _, info = env.step(turn.reply)
            assert (turn.reward, turn.valid, turn.num_actions) == (reward, info["valid"], len(info["actions"]))
        assert trajectory.stop_reason == info["stop_reason"] and trajectory.success == info["success"]


@pytest.mark.parametrize("settings", [{"max_concurrent": 1}, {"max_concurrent": 8}, {"env_timeout_s": 30.0}])
def test_a_trajectory_depends_on_its_spec_alone(engine: HFEngine, chat: ChatFormat, settings: dict[str, Any]) -> None:
    usual = play(engine, chat)
    other = play(engine, chat, **settings)
    assert [t.token_ids().tolist() for t in usual] == [t.token_ids().tolist() for t in other]
    assert [t.episode_return for t in usual] == [t.episode_return for t in other]


def test_sampling_seeds_differ_between_turns_and_specs(chat: ChatFormat) -> None:
    used: list[int | None] = []

    class Noting(HFEngine):
        def add(self, key: int, prompt_ids: Any, sampling: Sampling) -> None:
            used.append(sampling.seed)
            super().add(key, prompt_ids, sampling)

    play(Noting(make_model(), max_context=1024), chat)
    assert len(used) == 24 and None not in used and len(set(used)) == 24
    seeds = {seed_of(Stream.TURN_SAMPLING, spec, turn) for spec in range(50) for turn in range(50)}
    assert len(seeds) == 2500 and all(0 <= seed < 2**63 for seed in seeds)


@pytest.mark.parametrize("evil_on", ["reset", "step"])
@pytest.mark.parametrize("threaded", [False, True])
def test_L1_an_environment_that_raises_ends_its_own_episode(
    engine: HFEngine, chat: ChatFormat, evil_on: str, threaded: bool
) -> None:
    def evil() -> None:
        raise RuntimeError("the box is on fire")

    timeout = 30.0 if threaded else None
    trajectories = play(engine, chat, lambda: Sokoban(evil, evil_on), env_timeout_s=timeout)
    failed = assert_only_the_bad_one_failed(trajectories, StopReason.ENV_ERROR)
    assert failed.error == "RuntimeError: the box is on fire"


@pytest.mark.parametrize("evil_on", ["reset", "step"])
def test_L1_a_hung_environment_costs_its_own_episode_only(engine: HFEngine, chat: ChatFormat, evil_on: str) -> None:
    release = threading.Event()
    trajectories = play(engine, chat, lambda: Sokoban(lambda: (release.wait(), None)[1], evil_on), env_timeout_s=5.0)
    failed = assert_only_the_bad_one_failed(trajectories, StopReason.ENV_ERROR)
    assert "longer than 5 s" in failed.error
    release.set()


def test_L1_a_slow_environment_does_not_hold_up_the_others(engine: HFEngine, chat: ChatFormat) -> None:
    others_done = threading.Event()

    class Watcher(HFEngine):
        def forget(self, key: int) -> None:
            super().forget(key)
            finished.add(key)
            if len(finished) == 7:
                others_done.set()

    finished: set[int] = set()

    def slow() -> None:
        assert others_done.wait(PATIENCE_S), "the others waited for the slow one"

    watcher = Watcher(make_model(), max_context=1024, max_rows=16)
    trajectories = play(watcher, chat, lambda: Sokoban(slow, "reset"), env_timeout_s=PATIENCE_S)
    assert not any(trajectory.stop_reason.failed for trajectory in trajectories)


def test_L1_environments_that_cannot_be_made_are_errors_of_their_episodes(engine: HFEngine, chat: ChatFormat) -> None:
    def broken() -> TextEnv:
        raise OSError("no such level file")

    for trajectory in play(engine, chat, broken):
        assert trajectory.stop_reason is StopReason.ENV_ERROR and "no such level file" in trajectory.error


def test_L2_a_failed_request_ends_its_own_episode(chat: ChatFormat) -> None:
    class Picky(HFEngine):
        """Refuses prompts of one episode the way the engine refuses: too long for it."""

        def add(self, key: int, prompt_ids: Any, sampling: Sampling) -> None:
            super().add(key, [0] * 2000 if key == BAD_SEED else prompt_ids, sampling)

    trajectories = play(Picky(make_model(), max_context=1024), chat)
    failed = assert_only_the_bad_one_failed(trajectories, StopReason.ENGINE_ERROR)
    assert "no room" in failed.error


def test_N1_non_finite_weights_end_episodes_as_engine_errors_and_the_engine_recovers(
    model: LlamaForCausalLM, chat: ChatFormat
) -> None:
    engine = HFEngine(model, max_context=1024)
    healthy = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    usual = play(engine, chat)
    engine.load_weights({name: tensor * torch.nan for name, tensor in healthy.items()}, 1)
    for trajectory in play(engine, chat):
        assert trajectory.stop_reason is StopReason.ENGINE_ERROR and "non-finite" in trajectory.error
    engine.load_weights(healthy, 2)
    assert [t.token_ids().tolist() for t in play(engine, chat)] == [t.token_ids().tolist() for t in usual]


def test_L3_the_first_observation_is_in_the_first_prompt(engine: HFEngine, chat: ChatFormat) -> None:
    for seed, trajectory in enumerate(play(engine, chat)):
        message, _ = Sokoban().reset(seed=seed, options={"outcome_seed": seed})
        assert trajectory.turns[0].prompt_ids.tolist() == chat.first_prompt("Sokoban", message)
        assert message in str(chat.tokenizer.decode(trajectory.turns[0].prompt_ids.tolist()))


@pytest.mark.parametrize("timeout", [None, 30.0])
def test_L4_environments_are_reused_and_all_are_closed(
    engine: HFEngine, chat: ChatFormat, timeout: float | None
) -> None:
    play(engine, chat, count=12, max_concurrent=3, env_timeout_s=timeout)
    wait_until(lambda: Sokoban.closed == Sokoban.made, "all environments are closed")
    assert Sokoban.made == 3 and Sokoban.closed == 3


def test_L4_a_pool_stays_its_owners(engine: HFEngine, chat: ChatFormat) -> None:
    pool = EnvPool(Sokoban, threaded=False)
    play(engine, chat, pool)
    play(engine, chat, pool)
    assert (Sokoban.made, Sokoban.closed) == (4, 0)
    pool.close()
    assert Sokoban.closed == 4


def test_L4_an_interrupted_batch_leaves_no_request_and_no_environment(engine: HFEngine, chat: ChatFormat) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(engine, chat, lambda: Sokoban(interrupt))
    assert engine.poll() == []
    assert Sokoban.closed == Sokoban.made > 0
    assert len(play(engine, chat)) == 8


def test_L5_a_context_that_overflows_ends_its_episode_as_context_full(engine: HFEngine, chat: ChatFormat) -> None:
    usual = play(engine, chat)
    limit = min(len(trajectory.turns[0].prompt_ids) for trajectory in usual) + 20
    for trajectory in play(engine, chat, max_context_tokens=limit):
        assert trajectory.stop_reason is StopReason.CONTEXT_FULL and not trajectory.stop_reason.failed
        assert trajectory.num_tokens <= limit
    for trajectory in play(engine, chat, max_context_tokens=10):
        assert trajectory.stop_reason is StopReason.CONTEXT_FULL and trajectory.turns == []


def test_L5_a_reply_is_cut_to_what_fits(engine: HFEngine, chat: ChatFormat) -> None:
    prompt = play(engine, chat, count=1)[0].turns[0].prompt_ids
    trajectory = play(engine, chat, count=1, max_context_tokens=len(prompt) + 5)[0]
    assert trajectory.num_tokens <= len(prompt) + 5 and trajectory.num_reply_tokens >= 1
