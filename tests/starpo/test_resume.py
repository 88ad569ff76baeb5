"""K iterations, a stop, and N − K more are N iterations: every metric, weight, moment and counter, to the last bit."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rllib_ragen.config.load import flatten
from rllib_ragen.credit.registry import estimator_names
from rllib_ragen.starpo.algorithm import StarPO
from rllib_ragen.starpo.config import StarPOConfig
from rllib_ragen.starpo.export import learner_state
from tests.starpo.build import digits_config

pytestmark = pytest.mark.usefixtures("local_ray")
OF_THE_PROCESS = ("time", "perf", "config.", "iterations_since_restore", "num_healthy", "date", "pid", "hostname")
"""Beginnings, and parts, of names that a result dict has from the clock, the machine or this process's age."""
VARIANTS: dict[str, dict[str, Any]] = {
    **{name: {"estimator": name, "group_size": 3} for name in estimator_names()},
    "gae, minibatches, epochs": {"estimator": "gae", "num_minibatches": 2, "num_epochs": 2},
    "adapters and critic": {"estimator": "gae", "lora_rank": 4, "lr": 1e-2},
    "reference and schedule": {
        "kl_coeff": 0.1, "lr_schedule": "cosine", "warmup_iterations": 2, "decay_iterations": 5,
    },
    "filter": {"filter": "top_p", "filter_value": 0.6, "loss_scaling": "sqrt", "group_weighting": "spread"},
    "dynamic sampling": {"dynamic_sampling_rounds": 2, "group_size": 2},
    "sequence loss": {"loss": "sequence", "tis_cap": 2.0, "num_epochs": 2},
}  # fmt: skip


def config_of(model: Path, variant: str) -> StarPOConfig:
    return digits_config(model, **VARIANTS[variant]).diagnostics(diagnostics_interval=2, diagnostics_num_prompts=4)


def numbers(result: dict[str, Any]) -> dict[str, float | str]:
    """All of RLlib's result dict but what the clock and the process say; NaN as a word, for it equals nothing."""
    return {
        key: "nan" if isinstance(value, float) and math.isnan(value) else value
        for key, value in flatten(result).items()
        if not any(part in key for part in OF_THE_PROCESS)
        and not key.endswith(("per_s", "idle_share", "_gib"))
        # RLlib tells it once after a build.
        and "num_trainable_parameters" not in key and "num_non_trainable_parameters" not in key
    }  # fmt: skip


def state_of(algo: StarPO) -> dict[str, Any]:
    """Weights, moments and counters, by name; arrays as bytes."""
    state = {"learner": learner_state(algo.learner_group), "progress": asdict(algo._counters)}
    return {key: value.tobytes() if isinstance(value, np.ndarray) else value for key, value in flatten(state).items()}


@pytest.mark.parametrize("variant", VARIANTS)
def test_R1_a_resumed_run_goes_on_to_the_last_bit(model: Path, tmp_path: Path, variant: str) -> None:
    whole = config_of(model, variant).build_algo()
    for _ in range(2):
        whole.train()
    whole.save_checkpoint(str(tmp_path))
    expected, state = numbers(whole.train()), state_of(whole)
    whole.stop()
    again = config_of(model, variant).build_algo()
    assert state_of(again) != state
    again.load_checkpoint(str(tmp_path))
    found = numbers(again.train())
    assert found == expected
    assert state_of(again) == state
    assert len(expected) > 60 and expected["starpo.policy_version"] == 3
    again.stop()


def test_R1_steps_that_were_skipped_are_counted_on(model: Path, tmp_path: Path) -> None:
    config = digits_config(model)
    first = config.build_algo()
    first.learner_group._learner._skipped_in_a_row["default_policy"] = 3
    first.save_checkpoint(str(tmp_path))
    first.stop()
    again = config.copy(copy_frozen=False).build_algo()
    again.load_checkpoint(str(tmp_path))
    assert again.learner_group._learner._skipped_in_a_row == {"default_policy": 3}
    again.stop()


@pytest.mark.slow
@pytest.mark.vllm
def test_R1_with_vllm_seeds_order_counters_and_moments_are_the_same_and_numbers_nearly(
    model: Path, tmp_path: Path
) -> None:
    def build() -> StarPO:
        config = digits_config(model, estimator="gae", num_minibatches=2).rollout(engine="vllm", max_concurrent=16)
        algo: StarPO = config.env_runners(num_env_runners=1).build_algo()
        return algo

    whole = build()
    for _ in range(2):
        whole.train()
    whole.save_checkpoint(str(tmp_path))
    saved = state_of(whole)
    expected, played = numbers(whole.train()), whole.last_trajectories()
    progress = whole._counters
    whole.stop()
    again = build()
    again.load_checkpoint(str(tmp_path))
    assert state_of(again) == saved, "weights, moments and counters to the last bit"
    found, replayed = numbers(again.train()), again.last_trajectories()
    seeds = [(t.group_id, t.env_seed, t.outcome_seed) for t in played]
    assert [(t.group_id, t.env_seed, t.outcome_seed) for t in replayed] == seeds
    assert asdict(again._counters)["next_group"] == progress.next_group
    assert again.policy_version == progress.policy_version
    same = sum(a.token_ids().tolist() == b.token_ids().tolist() for a, b in zip(played, replayed, strict=True))
    assert same >= len(played) - 1, "a token differs only where its uniform number falls between two roundings"
    if same == len(played):
        for name, value in expected.items():
            if name.startswith("starpo.") and not isinstance(value, str) and not name.startswith("starpo.logprob_gap"):
                assert found[name] == pytest.approx(value, rel=1e-3, abs=1e-5), name
    again.stop()
