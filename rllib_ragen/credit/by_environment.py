"""Several environments in one batch: each is credited as if it were alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rllib_ragen.config.schema import CreditSection
from rllib_ragen.credit.estimator import Estimator
from rllib_ragen.credit.groups import env_labels
from rllib_ragen.credit.normalise import normalised_rewards
from rllib_ragen.credit.rows import to_rows
from rllib_ragen.credit.weighting import loss_weights
from rllib_ragen.types import FloatArray, TokenRow, Trajectory


def rows_by_environment(
    trajectories: Sequence[Trajectory],
    judged: Sequence[Trajectory],
    values: Sequence[FloatArray] | None,
    estimator: Estimator,
    section: CreditSection,
    kept_ratios: Mapping[str, float],
) -> list[TokenRow]:
    """Returns one row per trajectory with a sampled token, in order.

    Means, deviations, whitening, baselines and weights are each environment's own, whatever the estimator: so no
    environment's rewards are noise in another's. A batch of one environment is credited as a whole.

    Args:
        trajectories: as they were played.
        judged: the same, with the rewards that the estimator is to see.
        values: the critic's of each, [num_tokens]; None: there is none.
        estimator: called once for each environment.
        section: how rewards are normalised, and losses weighted.
        kept_ratios: share of its groups that these are, by an environment's label; 1 where none is told.
    """
    rows: dict[int, TokenRow] = {}
    for env in env_labels(trajectories):
        mine = [index for index, trajectory in enumerate(trajectories) if trajectory.env == env]
        own, seen = [trajectories[index] for index in mine], None if values is None else [values[i] for i in mine]
        credits = estimator(normalised_rewards([judged[index] for index in mine], section), seen)
        weights = loss_weights(own, kept_ratios.get(env, 1.0), section)
        learnt = [index for index in mine if trajectories[index].num_reply_tokens]
        rows |= zip(learnt, to_rows(own, credits, seen, section.normalize, weights), strict=True)
    return [rows[index] for index in sorted(rows)]
