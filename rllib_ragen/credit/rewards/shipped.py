"""Rewards that come with the package and need no model: the environment's own, of form, and of length."""

from __future__ import annotations

from ragen_envs.reply import parse_reply
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.types import Turn


def env_reward(turn: Turn) -> float:
    """Returns the environment's own reward of the turn."""
    return turn.env_reward


def format_reward(turn: Turn, run: RunConfig) -> float:
    """Returns 1 for a reply of the wanted form (`<think>…</think><answer>…</answer>`, whatever stands in it), else 0.

    Whether a thought belongs to it, `env.think` says. DeepSeek-R1's format reward (arXiv 2501.12948), per turn.
    """
    return float(parse_reply(turn.reply, think=run.env.think).well_formed)


class LengthPenalty:
    """Takes from a turn's reward what its reply is too long: −(n − free) / (limit − free), at least −1, for n tokens.

    A straight line from `free` tokens, which cost nothing, to `limit`, which cost 1; weigh it with `weight`. Where only
    the last stretch before the cut is to cost, `credit.overlong_cache` (DAPO) does that.
    """

    def __init__(self, run: RunConfig, free: int = 0, limit: int | None = None) -> None:
        """
        Args:
            run: where `limit` is not given it is `rollout.max_reply_tokens`.
            free: tokens without a price, ≥ 0.
            limit: tokens at which the penalty is −1, above `free`.

        Raises:
            ValueError: a number out of range.
        """
        most = run.rollout.max_reply_tokens if limit is None else limit
        if any(isinstance(number, bool) or not isinstance(number, int) for number in (free, most)):
            raise ValueError(f"free and limit must be integers, got {free!r} and {most!r}")
        if not 0 <= free < most:
            raise ValueError(f"free must be ≥ 0 and below limit ({most}), got {free}")
        self._free, self._limit = free, most

    def __call__(self, turn: Turn) -> float:
        """Returns a number in [−1, 0]."""
        excess = max(0, len(turn.reply_ids) - self._free)
        return -min(1.0, excess / (self._limit - self._free))
