"""The fixtures of the tests of StarPO: a learner is made by its config."""

from __future__ import annotations

from tests.starpo.conftest import local_ray, model, one_thread

__all__ = ["local_ray", "model", "one_thread"]
