"""Equivalent mutations: changes without an observable effect, each with the reason."""

from __future__ import annotations

_OVERWRITTEN = "every entry is written before it is read"
_ANY_SIGN = "only the sign orders"
_TWO_DIMENSIONS = "of two dimensions the second is the last"
_FORGETS = "what is forgotten is rendered again, to the same tokens"

EQUIVALENT: dict[str, dict[tuple[str, str], str]] = {
    "credit/bi_level_gae.py": {
        ("BiLevelGAE._advantages", "1 → 2"): "any number that is no turn's serves as the one before the first",
    },
    "credit/filters.py": {
        ("_kept", "1 → 2"): _ANY_SIGN,
        ("_kept", "1 → 2 #2"): _ANY_SIGN,
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
    "credit/rows.py": {},
    "credit/token_axis.py": {
        ("discounted", "np.zeros_like(terms) → np.ones_like(terms)"): _OVERWRITTEN,
        ("whitened", "together.sum() → together"): "of one number, the sum is the number",
    },
    "credit/weighting.py": {
        ("loss_weights", "0.0 → 1.0"): "without a kept group there is no weight to scale",
        ("loss_weights", "0.0 → -1.0"): "without a kept group there is no weight to scale",
    },
    "learner/microbatches.py": {
        ("empty_microbatch", "0.0 → 1.0"): "no token has the scale",
        ("empty_microbatch", "0.0 → -1.0"): "no token has the scale",
    },
    "learner/training_data.py": {
        ("balance", "0 → 1"): "only the differences of loads count",
        ("balance", "0 → -1"): "only the differences of loads count",
    },
    "learner/losses/policy.py": {
        ("policy_loss", "advantages < 0 → advantages <= 0"): "an advantage of 0 has a loss and a cap of 0",
    },
    "learner/losses/sequence.py": {
        ("sequence_log_ratio", "0 → 1"): "nobody reads the sum of a trajectory that is not there",
        ("sequence_log_ratio", "0 → -1 #2"): "the first dimension of one is also the last",
    },
    "models/chat_format.py": {
        ("module", "4096 → 4097"): _FORGETS,
        ("module", "4096 → 4095"): _FORGETS,
        ("ChatFormat._system_is_kept", "return False → return None"): "it is only asked whether it is true",
    },
    "rollout/context.py": {
        ("Context.__init__", "self._message = '' → (nothing)"): "the first prompt sets it before anybody reads it",
    },
    "rollout/conversation.py": {
        ("Conversation.say", "0.0 → 1.0"): "the turn gets its reward when it is added",
        ("Conversation.say", "0.0 → -1.0"): "the turn gets its reward when it is added",
    },
    "rollout/engines/sampling.py": {
        **{("sample_tokens", f"-1 → 1{number}"): _TWO_DIMENSIONS for number in ("", " #2", " #4", " #5")},
        **{("sample_tokens", f"0 → -1 #{number}"): "there is one column" for number in (2, 3)},
        **{("_truncate", f"-1 → 1{number}"): _TWO_DIMENSIONS for number in ("", " #2", " #3", " #4", " #5")},
        ("_truncate", "torch.zeros_like(keep) → torch.ones_like(keep)"): _OVERWRITTEN,
    },
    "rollout/game_session.py": {
        ("GameSession.__init__", "self._instance_key = '' → (nothing)"): "the opening sets it before anybody reads it",
    },
    "rollout/text_session.py": {
        ("TextSession.take", "return False → return None"): "it is only asked whether it is true",
    },
}
"""Reasons by module, and by function and change as named by `mutations`."""
