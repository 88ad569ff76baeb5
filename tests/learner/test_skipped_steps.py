"""Non-finite gradients: the step is skipped, counted, and too many in a row end the run with a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rllib_ragen.types import TokenRow
from tests.starpo.build import digits_config, largest_difference, make_learner, random_rows, update, weights


def spoilt(rows: list[TokenRow]) -> list[TokenRow]:
    rows[0].advantages[rows[0].mask > 0] = np.nan
    return rows


def test_N1_skipped_steps_are_counted_in_a_row_across_updates(model: Path) -> None:
    learner = make_learner(digits_config(model, estimator="gae"))
    before = weights(learner)
    first = update(learner, spoilt(random_rows(1)), num_epochs=2)
    assert (first["skipped_steps"], first["skipped_in_a_row"]) == (2, 2)
    assert update(learner, spoilt(random_rows(1)))["skipped_in_a_row"] == 3
    assert largest_difference(before, weights(learner)) == 0.0
    assert all(optimizer.state == {} for _, optimizer in learner.get_optimizers_for_module("default_policy")), (
        "no moment has seen them"
    )
    good = update(learner, random_rows(1))
    assert (good["skipped_steps"], good["skipped_in_a_row"]) == (0, 0)
    assert update(learner, spoilt(random_rows(1)))["skipped_in_a_row"] == 1


@pytest.mark.usefixtures("local_ray")
def test_N1_too_many_skipped_steps_in_a_row_stop_the_run_with_a_reason(model: Path) -> None:
    def spoil(*, episode: Any, **kwargs: Any) -> None:
        episode.rewards.data[0] = float("nan")

    algo = digits_config(model, max_skipped_steps=2).callbacks(on_episode_end=spoil).build_algo()
    before = weights(algo.learner_group._learner)
    algo.train()
    assert algo.stop_reason is None
    algo.train()
    assert algo.stop_reason == "2 optimiser steps in a row had gradients that are not finite"
    assert largest_difference(before, weights(algo.learner_group._learner)) == 0.0
    algo.stop()
