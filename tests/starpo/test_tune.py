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
