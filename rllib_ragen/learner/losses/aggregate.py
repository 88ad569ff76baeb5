"""Aggregation of per-token losses: a factor per row, so that the sum is the mean asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

Aggregation = Literal["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"]


def row_scales(
    token_counts: Sequence[int],
    aggregation: Aggregation,
    *,
    total_tokens: int,
    total_rows: int,
    norm_tokens: int | None = None,
) -> list[float]:
    """Returns the factor of each row, so that loss = Σ_rows scale_row · Σ_trained tokens of the row.

    token_counts: trained tokens of the given rows. total_tokens, total_rows: trained tokens and rows with at least
    one, of the *whole* minibatch over all micro-batches and learners; sums over any split of it then add up to the
    same loss and gradient (learners must sum gradients, not average them).

    token-mean: 1/total_tokens. seq-mean-token-mean: 1/(total_rows · count). seq-mean-token-sum: 1/total_rows.
    seq-mean-token-sum-norm: 1/(total_rows · norm_tokens), a constant that no trajectory's length enters (Dr. GRPO, Liu
    et al. 2025, arXiv 2503.20783). A row without trained tokens gets 0.

    Raises ValueError for an unknown aggregation, for totals below those of the given rows, and for the last
    aggregation without norm_tokens.
    """
    filled = sum(count > 0 for count in token_counts)
    if total_tokens < sum(token_counts) or total_rows < filled:
        raise ValueError(
            f"Totals ({total_rows} rows, {total_tokens} tokens) are less than the rows at hand"
            f" ({filled} rows, {sum(token_counts)} tokens)."
        )
    if aggregation == "token-mean":
        return [1.0 / total_tokens if count else 0.0 for count in token_counts]
    if aggregation == "seq-mean-token-mean":
        return [1.0 / (total_rows * count) if count else 0.0 for count in token_counts]
    if aggregation == "seq-mean-token-sum":
        return [1.0 / total_rows if count else 0.0 for count in token_counts]
    if aggregation == "seq-mean-token-sum-norm":
        if not norm_tokens:
            raise ValueError("learner.aggregation=seq-mean-token-sum-norm needs learner.norm_tokens ≥ 1.")
        return [1.0 / (total_rows * norm_tokens) if count else 0.0 for count in token_counts]
    raise ValueError(f"learner.aggregation: unknown {aggregation!r}; allowed: {', '.join(get_args(Aggregation))}.")
