"""Estimators agree with verl's core_algos to 1e-6 on random ragged batches (`make oracle`)."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from rllib_ragen.config.schema import CreditSection
from rllib_ragen.credit.registry import make_estimator
from rllib_ragen.credit.token_axis import token_rewards
from rllib_ragen.types import FloatArray, Trajectory
from tests.credit.build import trajectory, values_at_trained
from tests.oracle import verl_core_algos

pytestmark = pytest.mark.oracle


@pytest.fixture
def verl() -> Any:
    return verl_core_algos()


def random_batch(seed: int) -> list[Trajectory]:
    """Ragged groups of 2 to 6 trajectories, one group of them without any spread.

    None of 1: there verl takes the raw return as the advantage, and we take 0.
    """
    rng = np.random.default_rng(seed)
    batch = []
    for group in range(5):
        for _ in range(rng.integers(2, 7)):
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


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("turn_rewards", [True, False])
def test_reinforce_plus_plus_agrees_with_verl(verl: Any, turn_rewards: bool, seed: int) -> None:
    batch = random_batch(seed)
    mask = padded([t.turn_index() >= 0 for t in batch])
    rewards = padded([token_rewards(t, turn_rewards) for t in batch])
    theirs, _ = verl.compute_reinforce_plus_plus_outcome_advantage(rewards, mask, config=SimpleNamespace(gamma=0.9))
    section = CreditSection(estimator="reinforce++", gamma=0.9, turn_rewards=turn_rewards)
    assert_equal([c.advantages for c in make_estimator(section)(batch)], theirs, mask)


@pytest.mark.parametrize("seed", range(5))
def test_reinforce_plus_plus_with_a_baseline_agrees_with_verl(verl: Any, seed: int) -> None:
    batch = random_batch(seed)
    mask = padded([t.turn_index() >= 0 for t in batch])
    rewards = padded([token_rewards(t, True) for t in batch])
    index = np.array([t.group_id for t in batch])
    theirs, _ = verl.compute_reinforce_plus_plus_baseline_outcome_advantage(rewards, mask, index)
    credits = make_estimator(CreditSection(estimator="reinforce++_baseline"))(batch)
    assert_equal([c.advantages for c in credits], theirs, mask)


@pytest.mark.parametrize("seed", range(5))
def test_dr_grpo_agrees_with_verl(verl: Any, seed: int) -> None:
    batch = random_batch(seed)
    mask = padded([t.turn_index() >= 0 for t in batch])
    rewards = padded([token_rewards(t, True) for t in batch])
    index = np.array([t.group_id for t in batch])
    theirs, _ = verl.compute_grpo_outcome_advantage(rewards, mask, index, norm_adv_by_std_in_grpo=False)
    credits = make_estimator(CreditSection(estimator="dr_grpo"))(batch)
    assert_equal([c.advantages for c in credits], theirs, mask)


@pytest.mark.parametrize("seed", range(5))
def test_bi_level_gae_is_verls_gae_twice(verl: Any, seed: int) -> None:
    """Once over turns, then over each turn as a row of its own; verl's returns − values are its raw advantages."""
    batch = random_batch(seed)
    rng = np.random.default_rng(seed + 100)
    values = [rng.normal(size=t.num_reply_tokens) for t in batch]
    of_turns = [
        np.split(v, np.cumsum([len(u.reply_ids) for u in t.turns])[:-1]) for t, v in zip(batch, values, strict=True)
    ]
    ends = padded([np.array([part[-1] for part in parts]) for parts in of_turns])
    mask = padded([np.ones(len(t.turns)) for t in batch])
    paid = padded([np.array([turn.reward for turn in t.turns]) for t in batch])
    targets = verl.compute_gae_advantage_return(paid, ends, mask, gamma=0.8, lam=0.9)[1]
    rows, rewards = [], []
    for i, parts in enumerate(of_turns):
        for k, part in enumerate(parts):
            rows.append(part)
            rewards.append(np.append(np.zeros(len(part) - 1), targets[i, k]))
    inside = padded([np.ones(len(row)) for row in rows])
    theirs, returns = verl.compute_gae_advantage_return(padded(rewards), padded(rows), inside, gamma=0.97, lam=0.9)
    section = CreditSection(estimator="bi_level_gae", turn_gamma=0.8, gamma=0.97, lam=0.9)
    credits = make_estimator(section)(
        batch, [values_at_trained(t, v.tolist()) for t, v in zip(batch, values, strict=True)]
    )
    for name, expected in (("advantages", theirs), ("returns", returns)):
        ours = np.concatenate([getattr(c, name)[t.turn_index() >= 0] for t, c in zip(batch, credits, strict=True)])
        np.testing.assert_allclose(ours, expected[inside > 0].numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_turn_grpo_is_verls_grpo_of_episodes_and_of_turns(verl: Any, seed: int) -> None:
    batch = random_batch(seed)
    episodes = np.array([t.group_id for t in batch])
    turns = [(t.group_id, k) for t in batch for k in range(len(t.turns))]
    to_go = [
        sum(0.9**j * turn.reward for j, turn in enumerate(t.turns[k:])) for t in batch for k in range(len(t.turns))
    ]

    def grpo(scores: list[float], index: Any) -> Any:
        column = torch.tensor(scores, dtype=torch.float64)[:, None]
        return verl.compute_grpo_outcome_advantage(column, torch.ones_like(column), index)[0][:, 0].numpy()

    alone = np.array([Counter(turns)[turn] == 1 for turn in turns])
    of_turns = np.where(alone, 0, grpo(to_go, np.array([f"{group} {k}" for group, k in turns])))
    of_episodes = np.repeat(grpo([t.episode_return for t in batch], episodes), [len(t.turns) for t in batch])
    credits = make_estimator(CreditSection(estimator="turn_grpo", turn_gamma=0.9, turn_weight=0.5))(batch)
    ours = [
        c.advantages[t.turn_index() == k][0] for t, c in zip(batch, credits, strict=True) for k in range(len(t.turns))
    ]
    np.testing.assert_allclose(ours, of_episodes + 0.5 * of_turns, rtol=2e-6, atol=2e-6)
