"""Role-conditioned advantages: by hand, and remembered from batch to batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rllib_ragen.config.schema import CreditSection
from rllib_ragen.credit.rae import RoleAdvantages
from rllib_ragen.credit.registry import make_estimator
from rllib_ragen.types import Trajectory
from tests.credit.build import trajectory


def played(agent: str, gained: float, policy: str = "p") -> Trajectory:
    built = trajectory(f"{policy}/{agent}/0", [(2, 3, gained)])
    built.agent_id, built.module_id = agent, policy
    return built


def test_by_hand_with_a_memory_of_nine_tenths() -> None:
    estimator = RoleAdvantages(0.9)
    batch = [played("first", 1.0), played("second", -1.0), played("first", 1.0), played("first", -2.0)]
    credits = estimator(batch)
    # first:  b = 0.1,  A = 0.9;  b = 0.09 + 0.1 = 0.19, A = 0.81;  b = 0.171 − 0.2 = −0.029, A = −1.971
    # second: b = −0.1, A = −0.9
    for credit, expected in zip(credits, [0.9, -0.9, 0.81, -1.971], strict=True):
        np.testing.assert_allclose(credit.advantages, [0, 0, expected, expected, expected], rtol=1e-6)
        assert not credit.returns.any()
    assert estimator.state() == pytest.approx({"p/first": -0.029, "p/second": -0.1})
    (next_one,) = estimator([played("second", 1.0)])
    assert next_one.advantages[-1] == pytest.approx(1.0 - (0.9 * -0.1 + 0.1))


def test_roles_of_different_policies_have_different_baselines() -> None:
    estimator = RoleAdvantages(0.5)
    estimator([played("first", 1.0, "a"), played("first", -1.0, "b")])
    assert estimator.state() == {"a/first": 0.5, "b/first": -0.5}


def test_roles_of_different_environments_have_different_baselines() -> None:
    estimator = RoleAdvantages(0.5)
    estimator([replace(played("first", 1.0), env="lake"), played("first", -1.0)])
    assert estimator.state() == {"lake/p/first": 0.5, "p/first": -0.5}


def test_a_restored_estimator_goes_on_as_if_it_had_never_stopped() -> None:
    whole, first, second = RoleAdvantages(0.95), RoleAdvantages(0.95), RoleAdvantages(0.95)
    batches = [[played("first", r), played("second", -r)] for r in (1.0, 0.5, -1.0)]
    expected = [whole(batch)[0].advantages[-1] for batch in batches]
    got = [first(batch)[0].advantages[-1] for batch in batches[:2]]
    second.restore(first.state())
    assert [*got, second(batches[2])[0].advantages[-1]] == expected


def test_the_config_makes_it_with_its_memory() -> None:
    estimator = make_estimator(CreditSection(estimator="rae", role_decay=0.5))
    assert isinstance(estimator, RoleAdvantages) and estimator.decay == 0.5 and not estimator.needs_group
