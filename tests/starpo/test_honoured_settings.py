"""RLlib's own settings, callbacks and classes of a user's have the effect that RLlib's users know."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from ray.rllib.utils.actor_manager import FaultAwareApply
from ray.rllib.utils.framework import get_device
from ray.rllib.utils.metrics.metrics_logger import DEFAULT_STATS_CLS_LOOKUP
from ray.rllib.utils.metrics.stats import MaxStats

from rllib_ragen.credit.registry import make_estimator
from rllib_ragen.learner.learner import StarPOLearner
from rllib_ragen.learner.objective import Objective
from rllib_ragen.models.llm_module import LLMRLModule
from rllib_ragen.rollout.env_runner import LLMEnvRunner
from rllib_ragen.starpo.algorithm import StarPO
from rllib_ragen.starpo.config import StarPOConfig
from tests.credit.build import trajectory
from tests.starpo.build import MODULE, digits_config, largest_difference, make_learner, random_rows, update, weights
from tests.starpo.test_games import LEARNER, all_weights, game_config, of

CALLED: dict[str, int] = defaultdict(int)
"""How often each callback was called."""
PLAYED: list[tuple[bool, int]] = []
"""(whether it counts, how many episodes) of each call of the runner."""
MOMENTS = (
    *("on_algorithm_init", "on_train_result", "on_evaluate_start", "on_evaluate_end", "on_environment_created"),
    *("on_episode_end", "on_sample_end", "on_checkpoint_loaded"),
)


class Callbacks(RLlibCallback):
    """Counts, and logs a metric of its own."""

    def on_episode_end(self, *, metrics_logger: Any, **kwargs: Any) -> None:
        CALLED["class"] += 1
        metrics_logger.log_value("longest", CALLED["class"], reduce="largest")


class Largest(MaxStats):
    """A way to reduce of one's own."""

    stats_cls_identifier = "largest"


def counting(name: str) -> Any:
    def called(**kwargs: Any) -> None:
        CALLED[name] += 1

    return called


class Runner(LLMEnvRunner):
    """Writes down what it plays."""

    def sample(self, **kwargs: Any) -> Any:
        PLAYED.append((kwargs["count"], len(kwargs["specs"])))
        return super().sample(**kwargs)


class Learner(StarPOLearner):
    """A loss times a factor of the user's."""

    steps = 0

    def update(self, *, training_data: Any, **kwargs: Any) -> Any:
        self.steps = len(training_data.steps)
        return super().update(training_data=training_data, **kwargs)

    def compute_loss_for_module(self, **kwargs: Any) -> Objective:
        objective = super().compute_loss_for_module(**kwargs)
        return replace(objective, loss=objective.loss * self.config.learner_config_dict["factor"])


@pytest.mark.usefixtures("local_ray")
def test_what_a_user_of_rllib_sets_is_seen_in_the_run(model: Path, tmp_path: Path) -> None:
    before = logging.getLogger("ray.rllib").level
    config = (
        digits_config(model, num_epochs=3, weight_decay=0.0)
        .env_runners(env_runner_cls=Runner)
        .learners(learner_class=Learner, learner_config_dict={"factor": 0.0})
        .callbacks(Callbacks, **{name: counting(name) for name in MOMENTS})
        .evaluation(evaluation_interval=2, evaluation_duration=3)
        .reporting(
            metrics_num_episodes_for_smoothing=2,
            custom_stats_cls_lookup={**DEFAULT_STATS_CLS_LOOKUP, "largest": Largest},
        )
        .debugging(log_level="CRITICAL")
    )
    algo: StarPO = config.build_algo()
    assert logging.getLogger("ray.rllib").level == logging.CRITICAL
    logging.getLogger("ray.rllib").setLevel(before)
    learner = algo.learner_group._learner
    untouched = weights(learner)
    results = [algo.train() for _ in range(2)]
    # The learner: three epochs of a loss times 0.
    assert isinstance(learner, Learner) and learner.steps == 3
    assert largest_difference(untouched, weights(learner)) == 0.0
    # The runner: two batches of 16, and the second iteration's evaluation, sampled and greedy.
    assert [count for count, _ in PLAYED] == [True, True, False, False]
    assert [episodes for _, episodes in PLAYED] == [16, 16, 3, 3]
    # Metrics: of the last two episodes, and of a kind of one's own.
    last = [one.episode_return for one in algo.last_trajectories()][-2:]
    assert results[1]["env_runners"]["episode_return_mean"] == pytest.approx(np.mean(last))
    # Of the episodes that were trained on; those of the evaluation are called for, too, and logged apart.
    assert (results[1]["env_runners"]["longest"], CALLED["class"]) == (32, 32 + 3 + 3)
    algo.restore_from_path(algo.save_to_path(tmp_path))
    found = {name: CALLED[name] for name in MOMENTS}
    assert found.pop("on_episode_end") >= 32 and found.pop("on_sample_end") >= 2
    assert found == {
        "on_algorithm_init": 1,
        "on_train_result": 2,
        "on_evaluate_start": 1,
        "on_evaluate_end": 1,
        "on_environment_created": 1,
        "on_checkpoint_loaded": 1,
    }
    # Weights that are taken out can be put in again, on the sampler's side too.
    taken = deepcopy(algo.get_weights())
    with torch.no_grad():
        learner.module[MODULE].llm.get_input_embeddings().weight.zero_()
    algo.set_weights(taken)
    assert largest_difference(untouched, weights(learner)) == 0.0
    algo.stop()


def test_settings_of_the_update_reach_it(model: Path) -> None:
    def moved(**settings: Any) -> float:
        learner = make_learner(digits_config(model, weight_decay=0.0, adam_eps=1.0, **settings))
        before = weights(learner)
        update(learner, random_rows(4))
        return largest_difference(before, weights(learner))

    # With Adam's ε far above any gradient a step is in proportion to learning rate and clipped gradient.
    plain = moved(lr=1e-3, grad_clip=1e-3)
    assert moved(lr=2e-3, grad_clip=1e-3) == pytest.approx(2 * plain, rel=1e-2)
    assert moved(lr=1e-3, grad_clip=2e-3) == pytest.approx(2 * plain, rel=1e-2)
    one = trajectory("g", [(2, 2, 0.0), (1, 2, 1.0)])
    credits = [
        make_estimator(digits_config(model, estimator="gae", gamma=gamma).credit_section())(
            [one], [np.zeros(one.num_tokens, np.float32)]
        )
        for gamma in (1.0, 0.5)
    ]
    assert [float(credit[0].returns[2]) for credit in credits] == [1.0, 0.125]


def test_resources_are_asked_for_as_they_are_said(model: Path) -> None:
    config = (
        digits_config(model)
        .resources(
            num_cpus_for_main_process=3, custom_resources_for_main_process={"disk": 1}, placement_strategy="SPREAD"
        )
        .env_runners(
            num_env_runners=2,
            num_cpus_per_env_runner=2,
            num_gpus_per_env_runner=0.5,
            custom_resources_per_env_runner={"runs": 1},
        )
        .learners(
            num_learners=1, num_cpus_per_learner=4, num_gpus_per_learner=0.25, custom_resources_per_learner={"fast": 1}
        )
    )
    asked = StarPO.default_resource_request(config)
    assert asked.strategy == "SPREAD"
    main, *rest = asked.bundles
    assert main == {"CPU": 3.0, "disk": 1.0}
    runner, learner = {"CPU": 2.0, "GPU": 0.5, "runs": 1.0}, {"CPU": 4.0, "GPU": 0.25, "fast": 1.0}
    assert rest == [runner, runner, learner]


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("restarts", [0, 7])
def test_runners_are_restarted_as_often_as_is_said(model: Path, restarts: int) -> None:
    config = digits_config(model).fault_tolerance(max_num_env_runner_restarts=restarts)
    # What Ray is asked for with each actor; no actor is started.
    group = EnvRunnerGroup(env_creator=None, config=config, _setup=False)
    assert group._remote_args["max_restarts"] == restarts


def test_a_failing_runner_waits_before_it_is_restarted() -> None:
    class Failing(FaultAwareApply):
        config = StarPOConfig().fault_tolerance(delay_between_env_runner_restarts_s=0.3)

    started = time.monotonic()
    with pytest.raises(SystemExit):
        Failing().apply(lambda actor: 1 / 0)
    assert time.monotonic() - started >= 0.3


def test_the_learner_in_the_driver_takes_the_gpu_it_is_told() -> None:
    config = StarPOConfig().learners(num_gpus_per_learner=1, local_gpu_idx=99)
    with pytest.raises(AssertionError, match="local_gpu_idx 99 is not a valid GPU ID"):
        get_device(config, config.num_gpus_per_learner)


class Noted(LLMRLModule):
    """A policy with settings of its own."""

    def setup(self) -> None:
        super().setup()
        self.note = (self.model_config["word"], self.model_config["number"])


@pytest.mark.parametrize("alone", [True, False])
def test_a_module_of_ones_own_gets_the_default_settings_and_its_own(model: Path, alone: bool) -> None:
    spec: Any = RLModuleSpec(module_class=Noted, model_config={"word": "mine"})
    spec = spec if alone else MultiRLModuleSpec(rl_module_specs={MODULE: spec})
    config = digits_config(model, estimator="gae").rl_module(rl_module_spec=spec, model_config={"number": 3})
    learner = make_learner(config)
    module = learner.module[MODULE].unwrapped()
    assert isinstance(module, Noted) and module.note == ("mine", 3)
    assert module.value_head is not None and module.model_config["path"] == str(model)
    before = weights(learner)
    update(learner, random_rows(4))
    assert largest_difference(before, weights(learner)) > 0


@pytest.mark.usefixtures("local_ray")
def test_policies_may_have_optimisers_of_their_own(model: Path) -> None:
    """Who plays, who learns and how fast are all said in RLlib's words."""
    config = game_config(model)
    config.multi_agent(
        policies={"a", "b", "c"},
        policy_mapping_fn=lambda agent, episode, **kwargs: (
            "a" if agent == "player_0" else "bc"[int(episode.id_[-1]) % 2]
        ),
        policies_to_train=["a", "b"],
    ).rl_module(algorithm_config_overrides_per_module={"b": {"lr": 1e-5}})
    algo = config.build_algo()
    before = all_weights(algo)
    result = algo.train()
    after = all_weights(algo)
    played = {(one.agent_id, one.module_id) for one in algo.last_trajectories()}
    assert played == {("player_0", "a"), ("player_1", "b"), ("player_1", "c")}
    moved = {name: largest_difference(of(before, name), of(after, name)) for name in "abc"}
    assert moved["c"] == 0.0 < moved["b"] < moved["a"] / 10
    assert [result["learners"][name]["lr"] for name in "ab"] == [1e-3, 1e-5]
    assert LEARNER not in algo.config.policies
    algo.stop()
