"""Estimators agree with verl's core_algos to 1e-6 on random ragged batches (optional: tests/oracle.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from rllib_ragen.config import CreditSection
from rllib_ragen.credit.registry import make_estimator
from rllib_ragen.credit.rewards import token_rewards
from rllib_ragen.types import FloatArray, Trajectory
from tests.credit.build import trajectory, values_at_trained
from tests.oracle import verl_core_algos


@pytest.fixture
def verl() -> Any:
    return verl_core_algos()


def random_batch(seed: int) -> list[Trajectory]:
    """Ragged groups of 1 to 5 trajectories, one group of them without any spread."""
    rng = np.random.default_rng(seed)
    batch = []
    for group in range(5):
        for _ in range(rng.integers(1, 6)):
            turns = [
                (int(rng.integers(1, 5)), int(rng.integers(1, 6)), 0.0 if group == 0 else float(rng.normal()))
                for _ in range(rng.integers(1, 4))
            ]
            batch.append(trajectory(f"g{group}", turns))
    order = rng.permutation(len(batch))
    return [batch[i] for i in order]


def padded(arrays: list[npt.NDArray[Any]]) -> torch.Tensor:
    """[rows, longest] float64, zeros at the right."""
    return torch.nn.utils.rnn.pad_sequence([torch.from_numpy(a.astype(np.float64)) for a in arrays], batch_first=True)


def assert_equal(ours: list[FloatArray], theirs: torch.Tensor, mask: torch.Tensor) -> None:
    torch.testing.assert_close(padded(list(ours)), theirs * mask, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("name", "function"), [("grpo", "grpo"), ("rloo", "rloo")])
def test_group_estimators_agree_with_verl(verl: Any, name: str, function: str, seed: int) -> None:
    batch = random_batch(seed)
    mask = padded([t.turn_index() >= 0 for t in batch])
    rewards = padded([token_rewards(t, True) for t in batch])
    theirs, _ = getattr(verl, f"compute_{function}_outcome_advantage")(
        rewards, mask, np.array([t.group_id for t in batch])
    )
    credits = make_estimator(CreditSection(estimator=name))(batch)
    assert_equal([c.advantages for c in credits], theirs, mask)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("turn_rewards", [True, False])
def test_gae_agrees_with_verl(verl: Any, turn_rewards: bool, seed: int) -> None:
    batch = random_batch(seed)
    rng = np.random.default_rng(seed + 100)
    values = [values_at_trained(t, rng.normal(size=t.num_reply_tokens).tolist()) for t in batch]
    mask = padded([t.turn_index() >= 0 for t in batch])
    rewards = padded([token_rewards(t, turn_rewards) for t in batch])
    advantages, returns = verl.compute_gae_advantage_return(rewards, padded(list(values)), mask, gamma=0.97, lam=0.9)
    section = CreditSection(estimator="gae", gamma=0.97, lam=0.9, turn_rewards=turn_rewards)
    credits = make_estimator(section)(batch, values)
    assert_equal([c.advantages for c in credits], advantages, mask)
    assert_equal([c.returns for c in credits], returns, mask)
