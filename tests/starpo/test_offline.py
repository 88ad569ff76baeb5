"""Training from stored trajectories: token-exact, in the order of a seed, and nothing but trajectories is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from ragen_envs.tree import Tree
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.diagnostics.alarms import measured
from rllib_ragen.diagnostics.metrics import find_metric
from rllib_ragen.rollout.trajectory_files import read_trajectories, trajectory_files
from rllib_ragen.run.log import RunLog
from rllib_ragen.starpo.algorithm import StarPO
from rllib_ragen.starpo.config import StarPOConfig
from rllib_ragen.types import Trajectory
from tests.starpo.build import MODULE, digits_config, largest_difference, metrics_of, weights
from tests.starpo.test_games import game_config

LR = 3e-3


class Stored(NamedTuple):
    """What two iterations of a run in the driver have left."""

    folder: Path
    run_file: Path
    """`trajectories.jsonl` as a run writes it."""
    batches: list[list[Trajectory]]
    start: dict[str, torch.Tensor]
    after_one: dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def stored(model: Path, tmp_path_factory: pytest.TempPathFactory, local_ray: None) -> Iterator[Stored]:
    folder = tmp_path_factory.mktemp("stored")
    algo = digits_config(model, lr=LR).offline_data(output=str(folder / "out")).build_algo()
    start, batches, after = weights(algo.learner_group._learner), [], []
    log = RunLog(folder)
    for iteration in (1, 2):
        metrics = metrics_of(algo.train())
        log.train(iteration, 0.0, measured(metrics), algo.last_trajectories(), algo.last_advantages())
        batches.append(algo.last_trajectories())
        after.append(weights(algo.learner_group._learner))
    log.close()
    algo.stop()
    yield Stored(folder / "out", folder / "trajectories.jsonl", batches, start, after[0])


def offline(model: Path, given: Path | str, **training: Any) -> StarPOConfig:
    return digits_config(model, lr=LR, **training).offline_data(input_=str(given))


def facts(trajectory: Trajectory) -> Tree:
    return {
        "tokens": trajectory.token_ids().tolist(),
        "turns": trajectory.turn_index().tolist(),
        "logprobs": trajectory.behaviour_logprobs().tolist(),
        "rewards": [turn.reward for turn in trajectory.turns],
        "texts": [(turn.prompt, turn.reply, turn.state) for turn in trajectory.turns],
        "group": trajectory.group_id,
    }


def test_output_has_a_file_for_each_iteration_with_all_of_its_trajectories(stored: Stored) -> None:
    files = trajectory_files(str(stored.folder))
    assert [file.name for file in files] == ["iteration_000001.jsonl", "iteration_000002.jsonl"]
    for number, (file, batch) in enumerate(zip(files, stored.batches, strict=True), start=1):
        read = list(read_trajectories(file))
        assert {iteration for iteration, _ in read} == {number}
        assert [facts(trajectory) for _, trajectory in read] == [facts(trajectory) for trajectory in batch]


def test_a_stored_batch_makes_the_step_that_was_made_when_it_was_played(model: Path, stored: Stored) -> None:
    made: list[Any] = []
    config = offline(model, stored.folder / "iteration_000001.jsonl").callbacks(
        on_episode_created=lambda **kwargs: made.append(kwargs)
    )
    algo: StarPO = config.evaluation(evaluation_duration=2).build_algo()
    result = algo.train()
    own = weights(algo.learner_group._learner)
    # The groups come in another order, so sums differ in their last bits.
    assert largest_difference(stored.start, stored.after_one) > LR / 2
    assert largest_difference(own, stored.after_one) < LR / 20
    assert (result["starpo"]["data_passes"], result["starpo"]["logprob_gap_max"] < 1e-3) == (1.0, True)
    assert np.isnan(result["starpo"]["policy_lag"])
    assert [name for name in result["starpo"] if find_metric(name) is None] == []
    assert made == [] and "env_runners" not in result
    # Nothing is played for training; evaluation is, with the new weights.
    found = algo.evaluate()
    assert (found["env_runners"]["num_episodes"], len(made)) == (2, 4)
    algo.stop()


def test_later_passes_are_weighed_against_the_stored_log_probs(model: Path, stored: Stored, tmp_path: Path) -> None:
    config = offline(model, stored.folder / "iteration_000001.jsonl", num_groups=3)
    algo: StarPO = config.build_algo()
    results = [algo.train()["starpo"] for _ in range(2)]
    algo.save_to_path(tmp_path)
    results += [algo.train()["starpo"] for _ in range(4)]
    assert [result["data_passes"] for result in results] == [3 * k / 4 for k in range(1, 7)]
    gaps = [result["logprob_gap_mean"] for result in results]
    assert gaps[-1] > 10 * gaps[0], "the policy leaves the one that sampled, and the ratio knows"
    assert max(result["clip_fraction"] for result in results) > 0
    groups = [trajectory.group_id for trajectory in algo.last_trajectories()]
    assert len(set(groups)) == 3 and all(groups.count(group) == 4 for group in groups)
    # The order of the groups follows from seed and counters.
    again = StarPO.from_checkpoint(tmp_path)
    assert again.config.to_run_config().offline.input == str(stored.folder / "iteration_000001.jsonl")
    assert str([metrics_of({"starpo": again.train()["starpo"]}) for _ in range(4)]) == str(
        [metrics_of({"starpo": result}) for result in results[2:]]
    )
    algo.stop()
    again.stop()


def test_each_group_is_taken_once_in_each_pass(model: Path, stored: Stored) -> None:
    algo: StarPO = offline(model, stored.folder, num_groups=4).build_algo()
    passes = []
    for _ in range(2):
        seen = []
        for _ in range(2):
            algo.train()
            seen += [tuple(facts(trajectory)["tokens"]) for trajectory in algo.last_trajectories()]
        passes.append(seen)
    every = sorted(tuple(facts(one)["tokens"]) for batch in stored.batches for one in batch)
    assert sorted(passes[0]) == sorted(passes[1]) == every
    assert passes[0] != passes[1]
    algo.stop()


def test_cloning_makes_stored_replies_likelier_than_they_were(model: Path, stored: Stored) -> None:
    config = offline(model, stored.run_file).algorithm("cloning").training(num_groups=4, num_minibatches=1)
    algo: StarPO = config.build_algo()
    first = algo.train()["starpo"]
    for _ in range(9):
        last = algo.train()["starpo"]
    # The loss is minus the log-ratio to the policy that sampled.
    assert last["policy_loss"] < first["policy_loss"] - 0.2
    assert last["clip_fraction"] == 0
    algo.stop()


def test_the_better_of_stored_replies_teach_more_with_advantages(model: Path, stored: Stored) -> None:
    """Advantage-weighted: replies above their group's mean become likelier than the others of the data."""
    config = offline(model, stored.folder, num_groups=8, estimator="raft", normalize="none")
    algo: StarPO = config.training(loss="log_likelihood", entropy_coeff=0.0).build_algo()
    for _ in range(8):
        algo.train()
    module = algo.learner_group._learner.module[MODULE]
    gains: dict[bool, list[float]] = {True: [], False: []}
    groups: dict[str, list[Trajectory]] = {}
    for one in algo.last_trajectories():
        groups.setdefault(one.group_id, []).append(one)
    for members in groups.values():
        mean = np.mean([one.episode_return for one in members])
        for one in members:
            batch = {
                "input_ids": torch.tensor(one.token_ids()[None], dtype=torch.int64),
                "trained": torch.tensor(one.turn_index()[None] >= 0),
            }
            with torch.no_grad():
                now = module.forward_inference(batch)["logprobs"].numpy()
            gain = float((now - one.behaviour_logprobs()[one.turn_index() >= 0]).mean())
            gains[bool(one.episode_return > mean + 1e-6)].append(gain)
    assert np.mean(gains[True]) > np.mean(gains[False]) + 0.05
    algo.stop()


def test_games_are_learnt_from_by_policy_and_role(model: Path, tmp_path: Path) -> None:
    played = game_config(model).offline_data(output=str(tmp_path)).build_algo()
    played.train()
    expected = weights_of(played)
    groups = {trajectory.group_id for trajectory in played.last_trajectories()}
    played.stop()
    algo = game_config(model).offline_data(input_=str(tmp_path)).build_algo()
    algo.train()
    assert {one.group_id.split("/", 2)[2] for one in algo.last_trajectories()} == groups
    assert largest_difference(weights_of(algo), expected) < 1e-3
    algo.stop()
    with pytest.raises(ConfigError, match=r"is policy 'default_policy''s; allowed: player_0, player_1"):
        game_config(model, play_mode="per_role").offline_data(input_=str(tmp_path)).build_algo()


def weights_of(algo: StarPO) -> dict[str, torch.Tensor]:
    return weights(algo.learner_group._learner)


def changed(change: Callable[[Tree], Any]) -> Callable[[str], str]:
    def spoil(line: str) -> str:
        record = json.loads(line)
        change(record)
        return json.dumps(record)

    return spoil


SPOILT: dict[str, tuple[Callable[[str], str], str]] = {
    "cut off": (lambda line: line[: len(line) // 2], r"line 1 of .*is cut off, or no JSON"),
    "no object": (lambda line: "[1, 2]", r"is no trajectory: 'list' object has no attribute 'get'"),
    "no log-probs": (changed(lambda r: [t.pop("logprobs") for t in r["turns"]]), r"line 1 of .*has no 'logprobs'"),
    "no tokens": (changed(lambda r: r["turns"][0].pop("reply_ids")), r"has no 'reply_ids': training is token-exact"),
    "fewer log-probs": (changed(lambda r: r["turns"][1]["logprobs"].pop()), r"has \d+ log-probs for \d+ sampled"),
    "negative token": (changed(lambda r: r["turns"][0]["prompt_ids"].__setitem__(0, -3)), r"token ids that are none"),
    "infinite": (changed(lambda r: r["turns"][0].update(reward=float("inf"))), r"reward that is not finite"),
    "unknown end": (changed(lambda r: r.update(stop_reason="bored")), r"'bored' is not a valid StopReason"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_file_that_is_none_of_trajectories_is_refused_before_anything_starts(
    model: Path, stored: Stored, tmp_path: Path, name: str
) -> None:
    spoil, says = SPOILT[name]
    lines = stored.run_file.read_text().splitlines()
    (tmp_path / "data.jsonl").write_text("\n".join([spoil(lines[0]), *lines[1:]]))
    with pytest.raises(ConfigError, match=rf"offline\.input: .*{says}"):
        offline(model, tmp_path / "data.jsonl").validate()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda r: r["turns"][0]["prompt_ids"].append(10**6), r"has the token id 1000000; allowed with this model"),
        (lambda r: r["turns"][0].update(reply="other words"), r"other words with this model's tokenizer"),
        (lambda r: r["turns"][0].update(prompt_ids=[5] * 300), r"allowed: at most rollout\.max_context_tokens=256"),
        (lambda r: r.update(module_id="nobody"), r"is policy 'nobody''s; allowed: default_policy"),
        (
            lambda r: r.update(env="sokoban"),
            r"is of the environment 'sokoban'; allowed in this run: those",
        ),
    ],
)
def test_what_this_model_cannot_have_sampled_is_refused(
    model: Path, stored: Stored, tmp_path: Path, change: Callable[[Tree], Any], says: str
) -> None:
    lines = stored.run_file.read_text().splitlines()
    (tmp_path / "data.jsonl").write_text("\n".join([*lines[1:], changed(change)(lines[0])]))
    with pytest.raises(ConfigError, match=rf"offline\.input: a trajectory of group 0 in .*{says}"):
        offline(model, tmp_path / "data.jsonl").build_algo()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda c: c.offline_data(output="elsewhere"), r"offline\.output=.*elsewhere with offline\.input="),
        (lambda c: c.credit(dynamic_sampling_rounds=2), r"credit\.dynamic_sampling_rounds=2 with offline\.input="),
        (
            lambda c: c.env_runners(num_env_runners=1).rollout(overlap="one_step_off"),
            r"rollout\.overlap=one_step_off with",
        ),
        (
            lambda c: c.offline_data(input_="nowhere/*.jsonl"),
            r"offline\.input=.*nowhere/\*\.jsonl: there is no such file",
        ),
        (lambda c: c.offline_data(input_=["a", "b"]), r"offline\.input"),
    ],
)
def test_keys_that_mean_nothing_without_play_are_refused(
    model: Path, stored: Stored, change: Callable[[StarPOConfig], StarPOConfig], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        change(offline(model, stored.folder)).validate()


def test_a_place_that_is_a_file_is_refused(model: Path, stored: Stored) -> None:
    with pytest.raises(ConfigError, match=r"offline\.output=.*trajectories\.jsonl is no folder; allowed: a folder"):
        digits_config(model).offline_data(output=str(stored.run_file)).validate()
