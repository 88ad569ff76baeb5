"""Bandit: pay-outs, names, splits by pair, the reversed variant."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from ragen_envs.bandit.arm_names import PAIRS
from ragen_envs.bandit.env import BanditEnv
from ragen_envs.splits import Split


def _pull(env: BanditEnv, seed: int, outcome_seed: int, high: bool) -> float:
    env.reset(seed=seed, options={"outcome_seed": outcome_seed})
    (best,) = env.solve() or ["none"]
    name = best if high else next(arm for arm in env.arms if arm != best)
    action = env.parse_action(name)
    assert action is not None
    _, reward, terminated, truncated, _ = env.step(action)
    assert terminated
    assert not truncated
    assert env.success == high
    return reward


def test_low_arm_always_pays_the_same_and_is_no_success() -> None:
    assert {_pull(BanditEnv(), seed, seed, high=False) for seed in range(20)} == {0.1}
    assert _pull(BanditEnv(low_reward=0.15), 0, 0, high=False) == 0.15


def test_high_arm_pays_one_a_quarter_of_the_time_and_is_success_even_unpaid() -> None:
    env, draws = BanditEnv(), 4_000
    rewards = [_pull(env, 3, outcome, high=True) for outcome in range(draws)]
    assert set(rewards) == {0.0, 1.0}
    assert abs(np.mean(rewards) - 0.25) < 4 * np.sqrt(0.25 * 0.75 / draws)


def test_there_are_12_training_and_8_held_out_pairs_and_no_name_twice() -> None:
    assert len(PAIRS[Split.TRAIN]) == 12
    assert len(PAIRS[Split.VAL]) + len(PAIRS[Split.TEST]) == 8
    names = [name.lower() for pairs in PAIRS.values() for pair in pairs for name in pair]
    assert len(set(names)) == len(names) == 40


def test_splits_share_no_name() -> None:
    env = BanditEnv()
    names: dict[Split, set[str]] = {}
    for split in Split:
        names[split] = set()
        for seed in range(300):
            env.reset(seed=seed, options={"split": split.value})
            names[split] |= set(env.arms)
        assert len(names[split]) == 2 * len(PAIRS[split])
    for one, other in combinations(Split, 2):
        assert not names[one] & names[other]


def test_order_is_shuffled_and_does_not_tell_the_high_arm() -> None:
    env = BanditEnv()
    first = []
    for seed in range(400):
        env.reset(seed=seed)
        first.append(env.solve() == [env.arms[0]])
    assert 0.4 < np.mean(first) < 0.6


def test_reversed_swaps_the_high_arm_and_says_so_in_the_state() -> None:
    plain, swapped = BanditEnv(), BanditEnv(reversed=True)
    for seed in range(20):
        plain.reset(seed=seed)
        swapped.reset(seed=seed)
        assert plain.arms == swapped.arms
        assert plain.solve() != swapped.solve()
        assert "opposite" in swapped.describe()
        assert "opposite" not in plain.describe()
    assert "opposite" in swapped.rules()


def test_a_name_that_is_not_on_offer_is_no_action() -> None:
    env = BanditEnv()
    env.reset(seed=0)
    absent = next(name for pair in PAIRS[Split.TRAIN] for name in pair if name not in env.arms)
    assert env.parse_action(absent) is None
    assert env.parse_action(env.arms[1].swapcase()) == 1


def test_a_chance_outside_0_to_1_is_refused() -> None:
    with pytest.raises(ValueError, match="high_probability"):
        BanditEnv(high_probability=1.5)
