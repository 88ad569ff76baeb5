"""The user's package on the path of one test, and registries as they were afterwards."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragen_envs import open_names
from ragen_envs.open_names import OpenNames
from ragen_envs.worlds import ENVIRONMENTS
from rllib_ragen.credit.filter_rules import FILTERS
from rllib_ragen.credit.registry import ESTIMATORS
from rllib_ragen.credit.rewards.registry import REWARDS
from rllib_ragen.learner.losses.registry import LOSSES
from tests.doors.build import write_package

KINDS: tuple[OpenNames[Any], ...] = (ENVIRONMENTS, ESTIMATORS, FILTERS, LOSSES, REWARDS)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that `my_pkg` lies in, importable."""
    before = [dict(kind._registered) for kind in KINDS]
    path = write_package(tmp_path / "user")
    monkeypatch.syspath_prepend(str(path))
    open_names._entry_points.cache_clear()
    yield path
    for name in [name for name in sys.modules if name.split(".")[0] == "my_pkg"]:
        del sys.modules[name]
    for kind, own in zip(KINDS, before, strict=True):
        kind._registered.clear()
        kind._registered.update(own)
    open_names._entry_points.cache_clear()
    importlib.invalidate_caches()
