"""What ships starts nowhere below the random floor: every task that it was taught, with and without thoughts."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaForCausalLM

from ragen_envs import env_names, make_text_env
from ragen_envs.instances import evaluated_numbers
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import preset
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.models.folder import model_folder
from rllib_ragen.models.tiny.demonstrations import conversations
from rllib_ragen.models.tiny.make import MAX_PLAN, recipes
from rllib_ragen.models.tiny.run_model import check_taught, run_model_folder
from rllib_ragen.rollout.collect import collect
from rllib_ragen.rollout.engines.hf import HFEngine
from rllib_ragen.rollout.specs import evaluation_specs
from rllib_ragen.run.evaluation import find_baselines, marks
from rllib_ragen.run.preflight import preflight
from rllib_ragen.starpo.checks.build_config import build_config
from rllib_ragen.types import Sampling, Trajectory

_EPISODES = 96
TAUGHT = ("sokoban", "frozen_lake", "bandit", "countdown")
"""What the small models were taught; other tasks want a model of their own."""


@lru_cache
def load(folder: Path) -> LlamaForCausalLM:
    return LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, use_safetensors=True)


def played(env: str, think: bool, temperature: float) -> list[Trajectory]:
    """Episodes on different test instances, several of each where there are few."""
    config = build_config(preset(env), {"env": {"think": think}})
    folder = run_model_folder(config)
    model, chat = load(folder), ChatFormat.from_folder(folder)
    specs = evaluation_specs("test", evaluated_numbers(env, config.env.task, "test", _EPISODES))
    plays = 1 if temperature == 0 else _EPISODES // len(specs)
    return collect(
        [replace(spec, sampling_seed=spec.sampling_seed + play) for play in range(plays) for spec in specs],
        engine=HFEngine(model, max_context=config.rollout.max_context_tokens, max_rows=_EPISODES),
        chat=chat,
        make_env=lambda: make_text_env(env, config.env.task, asdict(config.text_limits())),
        sampling=Sampling(config.rollout.max_reply_tokens, chat.stop_token_ids, temperature=temperature),
        max_context_tokens=config.rollout.max_context_tokens,
    )


@pytest.mark.parametrize("temperature", [1.0, 0.0])
@pytest.mark.parametrize("think", [True, False])
@pytest.mark.parametrize("env", TAUGHT)
def test_it_does_not_start_below_random_play(env: str, think: bool, temperature: float) -> None:
    config = build_config(preset(env), {"env": {"think": think}})
    floor = marks(find_baselines(config))["random"]
    trajectories = played(env, think, temperature)
    by_instance: dict[str, list[float]] = {}
    for trajectory in trajectories:
        by_instance.setdefault(trajectory.group_id, []).append(float(trajectory.success))
    means = [float(np.mean(found)) for found in by_instance.values()]
    # Nothing can be known of the arms' names: half of them is what there is to reach, and chance decides which half.
    slack = 2 * float(np.std(means)) / len(means) ** 0.5 if env == "bandit" else 0.0
    assert np.mean(means) >= floor - slack
    turns = [turn for trajectory in trajectories for turn in trajectory.turns]
    assert np.mean([turn.valid for turn in turns]) > 0.85


def test_replies_are_of_the_form_that_is_asked_for() -> None:
    chat = ChatFormat.from_folder(model_folder("tiny"))
    for think in (True, False):
        texts = [
            chat.reply_text(turn.reply_ids.tolist())
            for trajectory in played("sokoban", think, 0.0)
            for turn in trajectory.turns
        ]
        assert np.mean([text.startswith("<think>Player") for text in texts]) == pytest.approx(float(think), abs=0.05)


@pytest.mark.parametrize("env", TAUGHT)
def test_its_card_says_what_it_was_taught_and_on_what(env: str) -> None:
    made = json.loads((run_model_folder(build_config(preset(env))) / "made.json").read_text())
    assert made["max_plan"] == MAX_PLAN
    assert {taught["think"] for taught in made["taught"] if taught["env"] == env} == {True, False}
    assert made["versions"]["torch"] and made["commit"] and made["threads"] and made["tokens"] > 1_000_000


def test_no_sokoban_demonstration_is_longer_than_the_card_says_and_none_is_a_wandering_turn() -> None:
    """What reinforcement has to find is really not in the demonstrations."""
    for recipe in recipes(0.005):
        if recipe.env != "sokoban":
            continue
        taught = [m for messages in conversations(recipe) for m in messages if m.role == "assistant" and m.trained]
        assert taught
        for message in taught:
            assert 1 <= message.content.split("<answer>")[1].count("||") + 1 <= MAX_PLAN


@pytest.mark.parametrize("env", [name for name in env_names() if name not in TAUGHT])
def test_it_is_refused_by_name_where_it_was_not_taught(env: str) -> None:
    config = build_config(preset(env))
    with pytest.raises(ConfigError, match=f"model.path=tiny with env.name={env}: .*give --model .*sokoban"):
        preflight(config, writes=False)


@pytest.mark.parametrize("env", [*TAUGHT, "kuhn_poker"])
def test_it_is_taken_where_it_was_taught_with_and_without_thoughts(env: str) -> None:
    for think in (True, False):
        check_taught(build_config(preset(env), {"env": {"think": think}}))
