"""The tests of StarPO's Ray and model, and a way to hurt a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import ray

from tests.faults.build import SMALL, AtIteration, Ended, run
from tests.starpo.conftest import local_ray, model

__all__ = ["local_ray", "model"]

Hurt = Callable[..., tuple[Ended, Path]]


@pytest.fixture
def hurt(tmp_path: Path, local_ray: None) -> Hurt:
    """Starts a small endless run in the tests' Ray, hurts it; how it ended, and its folder."""

    def play(
        act: AtIteration | None,
        *settings: str,
        patch: Callable[[], None] | None = None,
        results: Path = tmp_path / "results",
    ) -> tuple[Ended, Path]:
        arguments = (*SMALL, *settings, "--results-dir", str(results), "--name", "run")
        address = ray.get_runtime_context().gcs_address
        ended = run(*arguments, address=address, act=act, patch=patch)
        assert ended.left == [], "processes outlive the run"
        return ended, results / "run"

    return play
