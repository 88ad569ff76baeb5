"""One formula for both libraries' arrays; what it means as a loss is in tests/learner/losses/test_kl_loss.py."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from rllib_ragen.config.schema import LearnerSection
from rllib_ragen.credit.kl_estimate import MAX_LOG_RATIO, KLEstimator, bounded_log_ratio, kl_estimate

PACKAGE = Path(__file__).parents[2] / "rllib_ragen"
LOG_RATIOS = [-1e4, -MAX_LOG_RATIO, -0.7, 0.0, 1e-9, 0.7, MAX_LOG_RATIO, 1e4]


@pytest.mark.parametrize("estimator", get_args(KLEstimator))
def test_numpy_and_torch_get_the_same_numbers(estimator: KLEstimator) -> None:
    of_numpy = kl_estimate(np.array(LOG_RATIOS), estimator, np.expm1)
    of_torch = kl_estimate(torch.tensor(LOG_RATIOS, dtype=torch.float64), estimator, torch.expm1)
    assert np.isfinite(of_numpy).all()
    np.testing.assert_allclose(of_numpy, of_torch.numpy(), rtol=1e-12)
    np.testing.assert_array_equal(of_numpy[[0, -1]], of_numpy[[1, -2]], err_msg="clamped to ±20")


def test_the_schema_allows_exactly_the_estimators_there_are() -> None:
    assert get_args(LearnerSection.model_fields["kl_estimator"].annotation) == get_args(KLEstimator)


def test_nobody_else_writes_the_formula_or_the_clamp() -> None:
    """exp(x) − 1 is k3's; the bound on log-ratios has one name."""
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        names = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
        if path.name != "kl_estimate.py":
            assert "MAX_LOG_RATIO" not in names, path
            assert not re.search(r"expm1\(", source), path


def test_the_bound_keeps_a_square_and_an_exponential_finite_in_float32() -> None:
    extreme = bounded_log_ratio(torch.tensor([-torch.inf, torch.inf]))
    assert torch.isfinite(extreme.exp()).all() and torch.isfinite(extreme.exp() ** 2).all()


def test_log_ratios_are_bounded_by_twenty_nats() -> None:
    assert bounded_log_ratio(np.array([-21.0, -20.0, 19.5, 21.0])).tolist() == [-20.0, -20.0, 19.5, 20.0]
