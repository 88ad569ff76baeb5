"""Success is what the environment says, not that the episode came to an end by itself."""

from __future__ import annotations

from ragen_envs.registry import make_text_env
from ragen_envs.text import TextEnv
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.rollout.collect import collect
from rllib_ragen.rollout.specs import EpisodeSpec
from rllib_ragen.types import Sampling, StopReason
from tests.rollout.marked import Marked

PLAN = "<think></think><answer>Down || Right || Down || Right || Down</answer>"


def lake() -> TextEnv:
    return make_text_env("frozen_lake", {"size": 3}, {"prompt_style": "brief", "max_turns": 2})


def test_a_hole_terminates_without_success(chat: ChatFormat) -> None:
    specs = [EpisodeSpec(str(seed), seed, seed, seed) for seed in range(60)]
    sampling = Sampling(60, chat.stop_token_ids)
    found = collect(
        specs, engine=Marked(chat, PLAN), chat=chat, make_env=lake, sampling=sampling, max_context_tokens=1024
    )
    ends = set()
    for seed, trajectory in enumerate(found):
        env = lake()
        env.reset(seed=seed, options={"split": "train", "outcome_seed": seed})
        for turn in trajectory.turns:
            _, _, terminated, _, info = env.step(turn.reply)
        assert (trajectory.success, trajectory.stop_reason) == (info["success"], info["stop_reason"])
        ends.add((trajectory.stop_reason, terminated, trajectory.success))
    assert ends >= {(StopReason.GOAL, True, True), (StopReason.FAILED, True, False)}
    assert (StopReason.MAX_TURNS, False, False) in ends
