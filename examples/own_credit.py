"""An estimator, a filter and a loss of one's own, named by import path.

What it shows
    `MedianBaseline` is an estimator: raw rewards in, an advantage per sampled token out. Its constructor's parameters
    are given the keys of `credit` of the same name (here none). `keep_mixed` is a filter: it selects the groups to
    train on. `unclipped` is a loss: the plain policy gradient, without PPO's clip.

How to run it
    python examples/own_credit.py
    python -m rllib_ragen.run --env bandit --estimator examples.own_credit:MedianBaseline
    python -m rllib_ragen.run --env bandit --set credit.filter=examples.own_credit:keep_mixed
    python -m rllib_ragen.run --env bandit --set learner.loss=examples.own_credit:unclipped

What to expect
    Two iterations on the bandit with all three, and where the run's folder is.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from rllib_ragen import register_estimator, register_filter, register_loss, train
from rllib_ragen.credit.filter_rules import GroupRanking
from rllib_ragen.credit.groups import GroupEstimator, Returns
from rllib_ragen.learner.losses.registry import PolicyTokens

if TYPE_CHECKING:
    from torch import Tensor


class MedianBaseline(GroupEstimator):
    """A = R − median of the group, which a single outlier hardly changes."""

    def advantages(self, returns: Returns) -> Returns:
        """Returns [n] advantages of one group's [n] returns."""
        return np.asarray(returns - np.median(returns), np.float64)


def keep_mixed(ranking: GroupRanking) -> Collection[str]:
    """Keeps the groups in which some succeed and some do not; all if there is none."""
    mixed = [
        group
        for group in ranking.groups
        if len({trajectory.success for trajectory in ranking.members[group]}) == 2
    ]  # fmt: skip
    return mixed or ranking.groups


def unclipped(tokens: PolicyTokens) -> tuple[Tensor, Tensor]:
    """Returns −ρ A per token, and no clip anywhere."""
    ratio = tokens.log_ratio.exp()
    return -ratio * tokens.advantages, ratio < 0


def main() -> None:
    """Registers the three by name, and trains with them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--iterations", type=int, default=2, help="updates")
    parser.add_argument("--num-learners", type=int, default=0, help="processes that learn; 0: this one")
    parser.add_argument("--results-dir", default="results", help="where the run's folder goes")
    args = parser.parse_args()

    register_estimator("median", MedianBaseline)
    register_filter("mixed", keep_mixed)
    register_loss("unclipped", unclipped)
    result = train(
        "bandit",
        iterations=args.iterations,
        results_dir=args.results_dir,
        credit={"estimator": "median", "filter": "mixed"},
        learner={"loss": "unclipped", "num_learners": args.num_learners},
        rollout={"num_groups": 4, "group_size": 4, "engine": "hf"},
        eval={"interval": 0, "num_test_instances": 0},
    )
    print(f"{len(result.metrics)} iterations, {result.stop_reason}: {result.folder}")


if __name__ == "__main__":
    main()
