"""Equivalent mutations: changes without an observable effect, each with the reason."""

from __future__ import annotations

_OVERWRITTEN = "every entry is written before it is read"
_ANY_SIGN = "only the sign orders"

EQUIVALENT: dict[str, dict[tuple[str, str], str]] = {
    "credit/bi_level_gae.py": {
        ("BiLevelGAE._advantages", "1 → 2"): "any number that is no turn's serves as the one before the first",
    },
    "credit/filters.py": {
        ("filter_groups", "1 → 2"): _ANY_SIGN,
        ("filter_groups", "1 → 2 #2"): _ANY_SIGN,
    },
    "credit/normalise.py": {
        ("normalised_rewards", f"np.{made}_like(returns) → {other}"): _OVERWRITTEN
        for made, other in (
            ("ones", "np.zeros_like(returns)"),
            ("ones", "returns"),
            ("zeros", "np.ones_like(returns)"),
            ("zeros", "returns"),
        )
    },
    "credit/rae.py": {
        (
            "RoleAdvantages.assign",
            "np.full(t.num_reply_tokens, self._advantage(t), np.float64) → self._advantage(t)",
        ): "numpy spreads one number over all tokens",
    },
    "credit/rows.py": {
        ("_batch_scale", "1 → 2"): "without a trained token there is no row to scale",
        ("_batch_scale", "1 → 0"): "without a trained token there is no row to scale",
    },
    "credit/token_axis.py": {
        ("discounted", "np.zeros_like(terms) → np.ones_like(terms)"): _OVERWRITTEN,
        ("whitened", "together.sum() → together"): "of one number, the sum is the number",
    },
    "credit/turn_level.py": {
        ("TurnEstimator.assign", "np.zeros_like(own) → np.ones_like(own)"): _OVERWRITTEN,
        ("TurnEstimator.assign", "np.zeros_like(own) → own"): _OVERWRITTEN,
    },
    "credit/weighting.py": {
        ("loss_weights", "0.0 → 1.0"): "without a kept group there is no weight to scale",
        ("loss_weights", "0.0 → -1.0"): "without a kept group there is no weight to scale",
    },
    "learner/losses/policy.py": {
        ("policy_loss", "advantages < 0 → advantages <= 0"): "an advantage of 0 has a loss and a cap of 0",
    },
    "learner/losses/sequence.py": {
        ("sequence_log_ratio", "1 → 2"): "nobody reads the sum of a trajectory that is not there",
        ("sequence_log_ratio", "0 → 1"): "nobody reads the sum of a trajectory that is not there",
        ("sequence_log_ratio", "0 → -1 #2"): "the first dimension of one is also the last",
    },
}
"""Reasons by module, and by function and change as named by `mutations`."""
