"""Behaviour cloning: 1 on every sampled token, whatever it earned."""

from __future__ import annotations

import numpy as np

from rllib_ragen.config.schema import CreditSection
from rllib_ragen.credit.registry import make_estimator
from tests.credit.build import trajectory


def test_every_sampled_token_has_advantage_one_and_no_target() -> None:
    """Two turns, of a prompt of two tokens and replies of one and of three."""
    good, bad = trajectory("a", [(2, 1, 5.0), (2, 3, 0.0)]), trajectory("a", [(2, 2, -7.0)])
    first, second = make_estimator(CreditSection(estimator="cloning"))([good, bad])
    np.testing.assert_array_equal(first.advantages, [0, 0, 1, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(second.advantages, [0, 0, 1, 1])
    np.testing.assert_array_equal(first.returns, np.zeros(8))
    assert first.advantages.dtype == np.float32
