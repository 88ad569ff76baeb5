"""StarPO under Ray Tune: search spaces, checkpoints and metrics go through the same doors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ray import tune

from rllib_ragen.starpo.algorithm import StarPO
from rllib_ragen.starpo.checkpoint.manifest import read_manifest
from tests.starpo.build import digits_config


@pytest.mark.slow
@pytest.mark.usefixtures("local_ray")
def test_tune_samples_settings_and_checkpoints_without_pickle(model: Path, tmp_path: Path) -> None:
    space: dict[str, Any] = {"clip_high": tune.grid_search([0.2, 0.3])}
    results = tune.Tuner(
        StarPO,
        param_space=digits_config(model).training(**space),
        run_config=tune.RunConfig(
            storage_path=str(tmp_path),
            stop={"training_iteration": 2},
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=True),
        ),
    ).fit()
    assert not results.errors
    assert {result.config["clip_high"] for result in results} == {0.2, 0.3}
    for result in results:
        assert result.metrics["starpo"]["policy_version"] == 2
        folder = Path(result.checkpoint.path)
        assert read_manifest(folder)["progress"]["iteration"] == 2
        assert not list(folder.rglob("*state.pkl"))


@pytest.mark.slow
@pytest.mark.usefixtures("local_ray")
def test_tune_finds_the_algorithm_by_name_and_an_alarm_ends_its_trial(model: Path, tmp_path: Path) -> None:
    stored = tmp_path / "stored"
    config = digits_config(model, env={"broken": True}).alarms(empty_filter="stop")
    results = tune.Tuner(
        "StarPO",
        param_space=config.offline_data(output=str(stored)),
        # No criterion of its own ends it.
        run_config=tune.RunConfig(storage_path=str(tmp_path / "tune")),
    ).fit()
    (result,) = results
    assert result.error is None
    assert result.metrics["training_iteration"] == 3 and result.metrics["alarms"]["empty_filter"] == 1
    assert result.metrics["stop_reason"].startswith("alarms.empty_filter=stop and there is a empty filter")
    # Every trial stores in a folder of its own.
    assert sorted(path.name for path in stored.glob("*/*.jsonl")) == [f"iteration_00000{k}.jsonl" for k in (1, 2, 3)]
