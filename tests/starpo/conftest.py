"""A local Ray, and a small model folder, shared by the tests of StarPO."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
import torch

from rllib_ragen.run.start_ray import start_local
from tests.starpo.build import write_model


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """More threads than cores make small models slower, and bits depend on their number."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random model."""
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def local_ray() -> Iterator[None]:
    """Ray on this machine; more CPUs than there are, because the actors of these tests mostly wait."""
    started = not ray.is_initialized()
    if started:
        start_local(6)
    yield
    if started:
        ray.shutdown()
