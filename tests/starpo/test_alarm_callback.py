"""Alarms without the run command: in a plain `build_algo()`, across checkpoints, beside a user's own callbacks."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from ray.rllib.callbacks.callbacks import RLlibCallback

from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.watching import AlarmsSection
from rllib_ragen.starpo.alarm_callback import AlarmCallback
from rllib_ragen.starpo.algorithm import StarPO
from rllib_ragen.starpo.config import StarPOConfig
from tests.starpo.build import digits_config

NAMES = set(AlarmsSection.model_fields)


def broken(model: Path, **alarms: Any) -> StarPOConfig:
    """A run whose environment always raises: nothing to learn from, no validation with success."""
    config = digits_config(model, env={"broken": True}).credit(max_empty_updates=9).alarms(**alarms)
    config.evaluation(evaluation_interval=1, evaluation_duration=1)
    return config


@pytest.mark.usefixtures("local_ray")
def test_an_alarm_is_told_once_and_asks_to_stop_where_it_says_so_across_a_checkpoint(
    model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    algo = broken(model, validation_failure="stop", repetition="off").build_algo()
    results = [algo.train() for _ in range(4)]
    assert set(results[0]["alarms"]) == NAMES - {"repetition"}
    assert [result["alarms"]["empty_filter"] for result in results] == [0, 0, 1, 1]
    assert not any(result["done"] or "stop_reason" in result for result in results)
    assert (algo.stop_reason, caplog.text.count("empty filter at iteration 3: 3 batches in a row")) == (None, 1)
    algo.save_to_path(tmp_path)
    algo.stop()
    again = StarPO.from_checkpoint(tmp_path, config=broken(model, validation_failure="stop"))
    with caplog.at_level(logging.WARNING):
        result = again.train()
    assert result["alarms"]["validation_failure"] == result["alarms"]["empty_filter"] == 1
    assert "validation failure at iteration 5: success was below 1% in 5 validations in a row" in caplog.text
    assert caplog.text.count("empty filter") == 1, "it went on to hold"
    assert (result["done"], result["stop_reason"]) == (True, again.stop_reason)
    assert result["stop_reason"].startswith("alarms.validation_failure=stop and there is a validation failure")
    again.stop()


@pytest.mark.usefixtures("local_ray")
def test_whatever_asks_to_stop_ends_a_trial(model: Path) -> None:
    algo = broken(model, **dict.fromkeys(NAMES, "off")).credit(max_empty_updates=1).build_algo()
    result = algo.train()
    assert result["alarms"] == {} and result["done"]
    assert "1 batches in a row had nothing to learn from" in result["stop_reason"]
    algo.stop()


class Mine(RLlibCallback):
    """A user's own."""


def test_the_alarms_stay_beside_a_users_own_callbacks(model: Path) -> None:
    def classes(config: StarPOConfig) -> object:
        return config.callbacks_class

    config = digits_config(model)
    assert classes(config) is AlarmCallback
    assert classes(config.callbacks(Mine)) == [AlarmCallback, Mine]
    assert classes(config.callbacks([AlarmCallback, Mine])) == [AlarmCallback, Mine]
    assert classes(StarPOConfig().update_from_dict({"callbacks": Mine})) == [AlarmCallback, Mine]
    assert classes(StarPOConfig().update_from_dict(config.to_dict())) == [AlarmCallback, Mine]
    assert classes(config.callbacks(None)) is AlarmCallback
    kept = config.callbacks(on_train_result=print)
    assert (classes(kept), kept.callbacks_on_train_result) == (AlarmCallback, print)


def test_the_modes_are_the_runs_own_and_others_are_refused(model: Path) -> None:
    run = digits_config(model).alarms(entropy_collapse="stop").to_run_config()
    assert run.alarms == AlarmsSection(entropy_collapse="stop")
    assert StarPOConfig.from_run_config(run).to_run_config().alarms == run.alarms
    with pytest.raises(ConfigError, match=r"alarms\.repetition: must be one of off, warn, stop"):
        digits_config(model).alarms(repetition="loud").validate()  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected keyword argument 'collapse'"):
        digits_config(model).alarms(collapse="stop")  # type: ignore[call-arg]
