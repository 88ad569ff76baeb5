"""Train, validation and test never share an instance."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from ragen_envs import env_names, make_task
from ragen_envs.splits import Split, draw_instance, split_of


@pytest.mark.parametrize(
    ("name", "settings", "seeds"),
    [(name, {}, 300) for name in env_names()]
    + [("frozen_lake", {"size": 3, "p_frozen": 0.95}, 400), ("countdown", {"max_number": 4, "max_target": 9}, 100)],
)
def test_instances_of_the_splits_are_disjoint(name: str, settings: dict[str, Any], seeds: int) -> None:
    """Also where instances are so few that every split must draw the same ones again and again."""
    task = make_task(name, **settings)
    keys: dict[Split, set[str]] = {}
    for split in Split:
        drawn = [task.reset(seed=seed, options={"split": split.value})[1]["instance_key"] for seed in range(seeds)]
        keys[split] = set(drawn)
        assert len(keys[split]) > 3
    for one, other in combinations(Split, 2):
        assert not keys[one] & keys[other]


def test_the_same_seed_names_different_instances_in_different_splits() -> None:
    task = make_task("sokoban")
    for seed in range(20):
        assert len({task.reset(seed=seed, options={"split": split})[0] for split in ("train", "val", "test")}) == 3


def test_half_of_all_instances_train_and_a_quarter_each_is_held_out() -> None:
    counts = Counter(split_of(str(n)) for n in range(8_000))
    assert abs(counts[Split.TRAIN] / 8_000 - 0.5) < 0.025
    assert abs(counts[Split.VAL] / 8_000 - 0.25) < 0.025


def test_unknown_splits_and_options_are_refused_with_the_allowed_ones() -> None:
    task = make_task("sokoban")
    with pytest.raises(ValueError, match=r"'dev'.*train, val, test"):
        task.reset(seed=0, options={"split": "dev"})
    with pytest.raises(ValueError, match=r"'splitt'.*split, outcome_seed"):
        task.reset(seed=0, options={"splitt": "train"})
    with pytest.raises(ValueError, match="outcome_seed must be ≥ 0"):
        make_task("bandit").reset(seed=0, options={"outcome_seed": -1})


def test_settings_without_instances_end_in_a_sentence_not_in_a_loop() -> None:
    with pytest.raises(ValueError, match="too narrow"):
        draw_instance(0, Split.TRAIN, lambda rng: None, str)
    with pytest.raises(ValueError, match="≥ 0"):
        draw_instance(-1, Split.TRAIN, lambda rng: int(rng.integers(9)), str)


def test_drawing_uses_no_global_random_state() -> None:
    def drawn() -> list[str]:
        tasks = [make_task(name) for name in env_names()]
        return [task.reset(seed=10_000 + seed)[0] for task in tasks for seed in range(5)]

    np.random.seed(0)
    untouched = np.random.random()
    np.random.seed(0)
    first = drawn()
    assert np.random.random() == untouched
    np.random.seed(1)
    assert drawn() == first
