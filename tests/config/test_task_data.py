"""`env.task.data` is a path like every other: absolute from where it is said, refused in one sentence if it is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragen_envs.registry import check_env_name, task_settings
from rllib_ragen.config.schema import WITH_DATA, RunConfig


@pytest.mark.parametrize("name", WITH_DATA)
def test_data_is_absolute_from_where_it_is_said(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "data" in task_settings(check_env_name(name))
    config = RunConfig.model_validate({"env": {"name": name, "task": {"data": "mine"}}})
    assert config.env.task["data"] == str(tmp_path / "mine")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    config = RunConfig.model_validate({"env": {"name": name, "task": {"data": "~/mine"}}})
    assert config.env.task["data"] == str(tmp_path / "home" / "mine")


def test_a_users_own_setting_of_that_name_is_left_alone() -> None:
    config = RunConfig.model_validate({"env": {"name": "pkg.worlds:Own", "task": {"data": "mine"}}})
    assert config.env.task["data"] == "mine"
