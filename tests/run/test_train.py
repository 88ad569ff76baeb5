"""`train` from Python: what it refuses, and that bad input costs nothing (tests/doors/ runs it for real)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rllib_ragen import ConfigError, load_run, train
from rllib_ragen.run.folder import RunFolder


@pytest.mark.parametrize(
    ("env", "algorithm", "keys", "says"),
    [
        ("sokobon", None, {}, "env.name: unknown environment 'sokobon'"),
        ("sokoban", "starpo_z", {}, "--algorithm: unknown 'starpo_z'"),
        ("sokoban", None, {"learner": {"lrr": 1}}, "learner.lrr: unknown key; did you mean lr"),
        ("sokoban", None, {"learner.lr": -1}, "learner.lr: must be a number > 0 and ≤ 10, got -1"),
        ("sokoban", None, {"learner": 3}, "learner: must be a section"),
        ("sokoban", None, {"iteration": 3}, "iteration: unknown key; did you mean iterations"),
        ("sokoban", None, {"env": {"max_turn": 3}}, "env.max_turn: unknown key"),
        ("nowhere.worlds:X", None, {}, "env.name: .* there is no module 'nowhere'"),
    ],
)
def test_bad_input_is_one_sentence(
    env: str, algorithm: str | None, keys: dict[str, Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        train(env, algorithm=algorithm, results_dir=tmp_path, **keys)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_has_not_ended_has_no_reason_and_no_model(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("env: {name: 'gone.away:World'}\n")
    (tmp_path / "progress.jsonl").write_text('{"iteration": 1, "success": null}\n{"iteration": 1, "split": "val"}\n')
    found = load_run(str(tmp_path))
    assert (found.metrics, found.evaluations) == (
        [{"iteration": 1, "success": None}],
        [{"iteration": 1, "split": "val"}],
    )
    assert (found.stop_reason, found.model, found.config.env.name) == (None, None, "gone.away:World")
    with pytest.raises(ConfigError, match="is no run folder"):
        load_run(tmp_path / "elsewhere")


def test_why_a_run_stopped_is_forgotten_when_it_goes_on(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.save_stop_reason(3, "all 3 iterations are done", finished=True)
    assert folder.stop_reason() == "all 3 iterations are done"
    folder.forget_stop_reason()
    folder.forget_stop_reason()
    assert folder.stop_reason() is None
