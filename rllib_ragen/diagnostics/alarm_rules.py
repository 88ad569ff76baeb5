"""When training goes wrong: one function per sign, from the rows logged so far to a sentence, or to nothing.

The signs of the Echo Trap come in an order (RAGEN, 2504.20073): reward std and entropy fall first, the reward and
the gradients break later, and that cannot be undone. A rule looks at all rows of the run, so it has no state of its
own: a resumed run judges exactly as one that never stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Row = Mapping[str, Any]
Rule = Callable[[Sequence[Row]], str]
Series = npt.NDArray[np.float64]

START, RECENT = 10, 5
"""Iterations that define the start of a run: 10 as in RAGEN's stop rule for the reward std. Iterations in a row that
must show a change: chosen freely."""
COLLAPSED = 0.1
"""Share of its start below which a reward std has collapsed, by RAGEN's stop rule; the same for an entropy, freely."""
SOLVED = 0.9
"""Success rate from which equal rewards within a group mean a solved task, and no alarm: chosen freely."""
SPIKE_WINDOW, SPIKE_Z, SPIKE_FACTOR = 20, 10.0, 4.0
"""Earlier norms that a spike is compared with, the robust z that it exceeds, and the multiple of their median: all
chosen freely. The multiple excludes small steps of a very steady norm, whose z is large."""
CLIFF_NOISE = 8.0
"""Standard errors that a fall must exceed: chosen freely, above the expected range of 1,000 normal numbers (6.5),
because the newest window is compared with the best of all.
"""
FAILED_VALIDATIONS, FAILED_SUCCESS = 5, 0.01
"""Validations in a row, and the success rate below which each is a failure: RAGEN's stop rule."""
EMPTY_UPDATES = 3
"""Batches in a row without a group to train on: less than the default 5 of `credit.max_empty_updates`, which ends a
run.
"""
DEGENERATE, DEGENERATE_RISE = 0.5, 0.25
"""Share of degenerate replies, and its rise since the start, both required: chosen freely. A model that starts with
such replies has not become degenerate by training.
"""
LONGER = 2.0
"""Growth factor of the reply length that raises an alarm if the return is no better: chosen freely."""
SAMPLER_GAP = 0.01
"""Nats per token: a bfloat16 sampler stays below a hundredth of it, a wrong temperature or stale weights do not."""
NEVER, NEVER_VALID = 3, 0.01
"""Iterations in a row, from the first one on too, after which a run is told that it cannot learn; and share of valid
turns below which there is none: less than one of a hundred."""
_MAD_TO_STD = 1.4826
"""Std of a Gaussian over its median absolute deviation."""


def reward_std_collapse(rows: Sequence[Row]) -> str:
    """Finds 10 iterations with an in-group reward std below 10 % of the first 10's mean, with success below 90 %."""
    stds = _series(rows, "group_reward_std")
    success = _series(rows, "success")
    if len(stds) < 2 * START or (len(success) and success[-START:].mean() >= SOLVED):
        return ""
    limit = COLLAPSED * stds[:START].mean()
    if stds[-START:].max() >= limit:
        return ""
    return f"the in-group reward std has been below {limit:.3g} ({COLLAPSED:.0%} of its start) for {START} iterations"


def entropy_collapse(rows: Sequence[Row]) -> str:
    """Finds 5 iterations with an entropy below 10 % of the first 10's mean."""
    entropies = _series(rows, "entropy")
    if len(entropies) < START + RECENT:
        return ""
    limit = COLLAPSED * entropies[:START].mean()
    if entropies[-RECENT:].max() >= limit:
        return ""
    return f"the entropy has been below {limit:.3g} nats ({COLLAPSED:.0%} of its start) for {RECENT} iterations"


def gradient_spike(rows: Sequence[Row]) -> str:
    """Finds a gradient norm with a robust z > 10 and > 4 times the median of the 20 (at least 10) before it."""
    norms = _series(rows, "grad_norm")
    if len(norms) <= START or not _is_last(rows, "grad_norm"):
        return ""
    before, norm = norms[-SPIKE_WINDOW - 1 : -1], norms[-1]
    median = float(np.median(before))
    std = _MAD_TO_STD * float(np.median(np.abs(before - median)))
    if norm <= SPIKE_FACTOR * median or norm - median <= SPIKE_Z * std:
        return ""
    return f"the gradient norm is {norm:.3g}, against {median:.3g} (median of the {len(before)} iterations before)"


def reward_cliff(rows: Sequence[Row]) -> str:
    """Finds a return (mean over 5 iterations) that has lost half of its gain, and more than noise explains."""
    returns = _series(rows, "return_mean")
    if len(returns) < START + RECENT:
        return ""
    means = np.convolve(returns, np.full(RECENT, 1 / RECENT), "valid")
    first, best, now = means[0], means[:-RECENT].max(), means[-1]
    noise = float(np.diff(returns).std(ddof=1)) / np.sqrt(2 * RECENT)
    if best - now <= max(0.5 * (best - first), CLIFF_NOISE * noise, COLLAPSED * abs(best)):
        return ""
    return f"the return has fallen from {best:.3g} to {now:.3g} (means over {RECENT} iterations)"


def validation_failure(rows: Sequence[Row]) -> str:
    """Finds 5 validations in a row with a success below 1 %, sampled and greedy."""
    success: dict[int, float] = {}
    for row in rows:
        if row.get("split") == "val":
            success[row["iteration"]] = max(success.get(row["iteration"], 0.0), row["success"] or 0.0)
    last = list(success.values())[-FAILED_VALIDATIONS:]
    if len(last) < FAILED_VALIDATIONS or max(last) >= FAILED_SUCCESS:
        return ""
    return f"success was below {FAILED_SUCCESS:.0%} in {FAILED_VALIDATIONS} validations in a row"


def empty_filter(rows: Sequence[Row]) -> str:
    """Finds 3 batches in a row without a group to train on (credit.max_empty_updates of them end a run anyway)."""
    empty = _series(rows, "empty_in_a_row")
    if not len(empty) or empty[-1] < EMPTY_UPDATES:
        return ""
    return f"{empty[-1]:.0f} batches in a row had nothing to learn from"


def non_finite(rows: Sequence[Row]) -> str:
    """Finds an optimiser step skipped for its gradient, or a loss, entropy or gradient norm that is not finite."""
    row = _last(rows)
    if row.get("skipped_steps"):
        return f"{row['skipped_steps']:.0f} optimiser step(s) were skipped: the gradient was not finite"
    if row.get("num_trained_tokens"):
        for name in ("policy_loss", "value_loss", "entropy", "grad_norm"):
            if name in row and row[name] is None:
                return f"{name} is not finite"
    return ""


def format_hacking(rows: Sequence[Row]) -> str:
    """Finds 5 iterations in which half of the valid turns had an empty thought, 25 points more than at the start.

    The start is the best of the first 5 iterations, here and below, because a run may go wrong within them.
    """
    return _degenerate(rows, "empty_thought_ratio", "of the valid replies have an empty thought")


def repetition(rows: Sequence[Row]) -> str:
    """Finds 5 iterations in which half of the replies' text is repeated, 25 points more than at the start."""
    return _degenerate(rows, "repeated_ratio", "of what a reply says was said before in it")


def length_blowup(rows: Sequence[Row]) -> str:
    """Finds 5 iterations with replies twice as long as at the start (the shortest of the first 5), without a better
    return.
    """
    lengths, returns = _series(rows, "reply_tokens_mean"), _series(rows, "return_mean")
    if min(len(lengths), len(returns)) <= RECENT:
        return ""
    start = float(lengths[:RECENT].min())
    if lengths[-RECENT:].min() < LONGER * start or np.median(returns[-RECENT:]) > np.median(returns[:RECENT]):
        return ""
    return f"replies are {lengths[-1]:.0f} tokens long, against {start:.0f} at the start, and the return is no better"


def sampler_gap(rows: Sequence[Row]) -> str:
    """Finds 5 on-policy iterations in which sampler and learner differ by more than 0.01 nats per token (k3)."""
    on_policy = [row for row in rows if row.get("policy_lag") == 0]
    gaps = _series(on_policy, "logprob_gap_k3")
    if len(gaps) < RECENT or gaps[-RECENT:].min() < SAMPLER_GAP:
        return ""
    return f"sampler and learner differ by {gaps[-1]:.3g} nats per token: what is trained is not what sampled"


def no_valid_reply(rows: Sequence[Row]) -> str:
    """Finds 3 iterations in which less than 1 % of the turns had a valid action."""
    shares = _series(rows, "valid_ratio")
    if len(shares) < NEVER or shares[-NEVER:].max() >= NEVER_VALID:
        return ""
    return (
        f"no reply of the last {NEVER} iterations held a valid action, so the task itself teaches nothing: give a model"
        " that knows the form of reply (--model; one fine-tuned on well-formed replies, or one that follows"
        " instructions), tell it the form (env.prompt_style=full, env.system_prompt), force its beginning"
        " (env.reply_prefix), or raise rollout.max_reply_tokens if replies are cut off"
    )


def nothing_to_compare(rows: Sequence[Row]) -> str:
    """Finds 3 iterations without a group whose members' returns differ, with a success below 90 %."""
    last = [row for row in rows if "split" not in row and row.get("num_groups")][-NEVER:]
    alike = [row.get("zero_spread_groups") == row["num_groups"] for row in last]
    success = _series(last, "success")
    if len(last) < NEVER or not all(alike) or (len(success) and success.mean() >= SOLVED):
        return ""
    return (
        f"in the last {NEVER} iterations no group had two members with different returns, so there was nothing to"
        " compare and no advantage: make the task easier (env.task) or the model better (--model, a warm start on good"
        " replies), sample larger groups (rollout.group_size) or warmer (rollout.temperature), or add a reward that"
        " tells replies apart (rewards)"
    )


def _degenerate(rows: Sequence[Row], name: str, what: str) -> str:
    shares = _series(rows, name)
    if len(shares) <= RECENT:
        return ""
    start, now = float(shares[:RECENT].min()), float(shares[-RECENT:].min())
    if now < max(DEGENERATE, start + DEGENERATE_RISE):
        return ""
    return f"{now:.0%} {what}, against {start:.0%} at the start"


def _series(rows: Sequence[Row], name: str) -> Series:
    """Returns the metric's values in the training rows that have it, in order."""
    found = [row[name] for row in rows if "split" not in row and row.get(name) is not None]
    return np.array(found, np.float64)


def _last(rows: Sequence[Row]) -> Row:
    """Returns the newest training row."""
    return next((row for row in reversed(rows) if "split" not in row), {})


def _is_last(rows: Sequence[Row], name: str) -> bool:
    """Returns whether the newest training row has the metric."""
    return _last(rows).get(name) is not None


RULES: dict[str, Rule] = {
    rule.__name__: rule
    for rule in (
        reward_std_collapse,
        entropy_collapse,
        gradient_spike,
        reward_cliff,
        validation_failure,
        empty_filter,
        non_finite,
        format_hacking,
        repetition,
        length_blowup,
        sampler_gap,
        no_valid_reply,
        nothing_to_compare,
    )
}
"""Rules by the names of AlarmsSection's switches."""
WATCHED = (
    "iteration",
    "split",
    "success",
    "group_reward_std",
    "entropy",
    "grad_norm",
    "return_mean",
    "empty_in_a_row",
    "skipped_steps",
    "num_trained_tokens",
    "policy_loss",
    "value_loss",
    "num_groups",
    "valid_ratio",
    "empty_thought_ratio",
    "repeated_ratio",
    "reply_tokens_mean",
    "policy_lag",
    "logprob_gap_k3",
)
"""All that the rules read of a row."""
