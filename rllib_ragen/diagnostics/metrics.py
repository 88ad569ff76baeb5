"""Every metric that a run logs: where it belongs, its unit, what it means, what is healthy and what to do if it is not.

The tables of docs/diagnostics.md, TensorBoard's headings and the labels of console and report are made from this list.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

NOTHING = "–"
"""Entry for a metric of which no value is healthy or not, or without advice."""
NO_HEADING = "more"
"""Heading of metrics that are not listed, such as a user's own."""
INTRODUCTIONS = {
    "rollout": "",
    "replies": "",
    "rewards": "Only with `rewards` ([docs/rewards.md](rewards.md)); `<label>` is a function's.",
    "groups": "",
    "learner": "",
    "engine": "",
    "time": "",
    "progress": "",
    "faults": "What was lost on the way, evaluations since the last iteration included ([docs/faults.md](faults.md)).",
    "curriculum": "With `env.curriculum` only ([docs/environments.md](environments.md)). `<n>` is a level, 1 the"
    " easiest.",
    "information": "Each with `first_turn_` and `any_turn_` in front.",
    "gradients": "Each with `bucket_1_` (the smallest reward std) to `bucket_6_` in front; null unless"
    " `diagnostics.gradients_interval` says so.",
    "games": "In training rows over the games of the batch, of policies that learn; evaluations add `_vs_<opponent>`."
    " TensorBoard has"
    "\nthem under `games/` and under the evaluation's own heading. `<seat>` is an agent's name,"
    " `<policy>` a policy's id.",
}
"""Headings in order, each with the introduction to its table on the page."""
_PREFIX = {"information": r"(?:first|any)_turn_", "gradients": r"bucket_\d+_"}
"""What stands before the names of a heading."""
_PLACE = {"<seat>": r".+", "<policy>": r".+", "<label>": r".+", "<n>": r"\d+"}
"""What stands for names of the task in a listed name."""
_LABELS = {
    "return_mean": "return",
    "group_reward_std": "group std",
    "num_failed": "failed",
    "reply_tokens_per_s": "tokens/s",
    "reply_tokens_mean": "reply length",
    "grad_norm": "gradient norm, before clipping",
    "group_reward_std_kept": "group std, kept",
    "zero_spread_groups": "groups of equal returns",
    "logprob_gap_mean": "mean gap",
    "logprob_gap_max": "largest gap",
    "turns_mean": "turns of an episode",
    "actions_mean": "actions of a turn",
    "valid_ratio": "valid",
    "finished_ratio": "episodes ended by the task",
    "empty_thought_ratio": "empty thoughts",
    "repeated_ratio": "repeated",
    "conditional_entropy_token": "H(Z|X)",
    "marginal_entropy_token": "H(Z)",
    "information_share": "I(X;Z) / H(X)",
}
"""Short names for console and charts, for metrics whose own name with spaces does not read well."""


@dataclass(frozen=True)
class Metric:
    """A metric, or a family of metrics over samples, buckets, seats or policies."""

    name: str
    """Name in the log, without the prefix of its heading."""
    heading: str
    """Group in TensorBoard, and heading on the page."""
    unit: str
    meaning: str
    healthy: str
    advice: str
    """Advice for unhealthy values."""

    @property
    def label(self) -> str:
        """Short name for console and charts."""
        return _LABELS.get(self.name, self.name.replace("_", " "))

    def is_name(self, logged: str) -> bool:
        """Says whether a metric that is logged under this name is this one."""
        parts = re.split("(<seat>|<policy>|<label>|<n>)", self.name)
        pattern = "".join(_PLACE.get(part, re.escape(part)) for part in parts)
        if self.heading == "games":
            pattern += "(?:_vs_.+)?"
        return re.fullmatch(_PREFIX.get(self.heading, "") + pattern, logged) is not None


def _under(heading: str, *rows: tuple[str, str, str, str, str]) -> Iterator[Metric]:
    """Yields the metrics of one heading, from rows of name, unit, meaning, healthy values, advice."""
    return (Metric(row[0], heading, *row[1:]) for row in rows)


# fmt: off
METRICS: tuple[Metric, ...] = (
    *_under(
        "rollout",
        ("success", "share", "episodes that reached the goal", "rises; compare with floor and ceiling",
         "see `group_reward_std`, `valid_ratio`"),
        ("return_mean", "reward", "mean sum of an episode's rewards from its environment, penalties included", "rises",
         "–"),
        ("turns_mean", "count", "turns of an episode", "–", "–"),
        ("context_tokens_mean", "tokens", "tokens of an episode, prompts and replies",
         "well below `rollout.max_context_tokens`", "raise it, or shorten prompts"),
        ("valid_ratio", "share", "replies whose valid action ran", "> 0.9 after a while",
         "more `max_reply_tokens`, a clearer prompt, larger `env.format_penalty`"),
        ("actions_mean", "count", "actions that a turn ran", "–", "–"),
        ("reply_tokens_mean", "tokens", "tokens of a reply", "well below `rollout.max_reply_tokens`",
         "cut replies are malformed: raise it"),
        ("finished_ratio", "share", "episodes that ended by the task, not by a cap", "rises with success",
         "more turns or actions"),
        ("num_failed", "count", "episodes lost to an environment's or engine's error", "0",
         "their `error` is in `trajectories.jsonl`"),
        ("num_instances", "count", "episodes of an evaluation", "–", "–"),
        ("distinct_instances", "count", "different task instances among an evaluation's, by their canonical keys;"
         " `success` is the mean over these, each with its own mean", "as many as episodes",
         "fewer cannot be had: `eval.num_instances` and `eval.num_test_instances` are above what the split holds"),
        ("success_error", "0 … 0.5", "standard error of an evaluation's `success` over distinct instances; not told for"
         " fewer than two", "small beside the change that is looked for", "more instances"),
    ),
    *_under(
        "replies",
        ("empty_thought_ratio", "share", "valid turns whose thought has no letter or digit", "near 0",
         "format hacking: reward what thoughts are for, or `env.think=false`"),
        ("repeated_ratio", "share", "runs of 4 tokens of a reply that it had said before", "< 0.3",
         "lower `learner.lr`; look at replies in the report"),
    ),
    *_under(
        "rewards",
        ("reward_<label>", "reward", "what the function gave an episode, before its weight, mean over episodes",
         "rises", "–"),
        ("trained_return_mean", "reward", "mean weighted sum, which is trained on", "rises", "–"),
        ("judge_calls_lifetime", "count", "requests to judges", "well below `budget_calls`",
         "`cache`, or fewer groups"),
        ("judge_remembered_lifetime", "count", "answers of judges that took no request", "–", "–"),
    ),
    *_under(
        "groups",
        ("group_reward_std", "reward", "std of returns within a group (ddof 1), mean over groups",
         "not falling towards 0 before the task is solved", "easier instances, larger groups, a filter"),
        ("group_reward_std_kept", "reward", "the same over kept groups", "–", "–"),
        ("group_reward_mean", "reward", "mean return, by group, mean over groups", "rises", "–"),
        ("group_reward_mean_kept", "reward", "the same over kept groups", "–", "–"),
        ("group_reward_max", "reward", "best return of a group, mean over groups", "above `group_reward_mean`",
         "as for `group_reward_std`"),
        ("group_reward_max_kept", "reward", "the same over kept groups", "–", "–"),
        ("sampling_rounds", "count", "rounds that the batch took (`credit.dynamic_sampling_rounds`)", "1 without",
         "easier or harder instances"),
        ("sampled_groups", "count", "groups that were played for it", "`rollout.num_groups` without", "likewise"),
        ("data_passes", "count", "passes over the stored groups by now (`offline.input`)", "–",
         "more data, where it goes on to rise"),
        ("num_groups", "count", "groups with a trajectory that did not fail", "`rollout.num_groups`",
         "see `num_failed`"),
        ("kept_groups", "count", "groups that the filter kept", "> 0", "weaker filter"),
        ("kept_ratio", "share", "their share", "> 0", "weaker filter"),
        ("zero_spread_groups", "count", "groups whose members all had the same return; null where no group has two",
         "under half of all",
         "instances too hard or too easy"),
    ),
    *_under(
        "learner",
        ("policy_loss", "–", "clipped surrogate that was minimised, entropy bonus apart", "finite",
         "`alarms.non_finite`"),
        ("value_loss", "reward²", "the critic's loss (`gae`)", "falls", "`learner.critic_lr`"),
        ("entropy", "nats per token", "mean over trained tokens", "falls slowly, stays above a tenth of its start",
         "lower `learner.lr`, raise `learner.entropy_coeff`, a filter"),
        ("clip_fraction", "share", "tokens whose ratio was clipped", "< 0.2",
         "fewer epochs or minibatches, lower `learner.lr`"),
        ("grad_norm", "norm", "policy gradient before clipping, mean over steps", "no spikes",
         "lower `learner.lr` or `learner.grad_clip`"),
        ("lr", "–", "the policy's learning rate in this update", "as scheduled", "–"),
        ("kl", "nats per token", "estimate of the divergence from the reference (`learner.kl_coeff` > 0 only)",
         "grows slowly", "raise `learner.kl_coeff`, lower `learner.lr`"),
        ("num_trained_tokens", "tokens", "tokens that the update counted", "> 0", "see `kept_groups`"),
        ("skipped_steps", "count", "optimiser steps left out for a gradient that was not finite", "0",
         "lower `learner.lr`; float32"),
        ("skipped_in_a_row", "count", "the most of these in a row (`learner.max_skipped_steps` end a run)", "0",
         "likewise"),
    ),
    *_under(
        "engine",
        ("logprob_gap_mean", "nats", "mean difference of sampler's and learner's log-probs, first step",
         "< 1e-4 in float32, < 0.05 in bfloat16", "engine and learner compute different models: report it"),
        ("logprob_gap_max", "nats", "the largest", "< 1e-3 in float32", "likewise"),
        ("logprob_gap_k3", "nats", "the gap as an estimate of KL(sampler, learner)",
         "< 1e-6 in float32, < 0.01 in bfloat16", "likewise; `learner.tis_cap`"),
        ("prefix_hit_rate", "share", "prompt tokens that were not computed again",
         "high in later turns and large groups", "see [rollouts](rollouts.md)"),
        ("reply_tokens_per_s", "tokens/s", "sampled tokens per second of rollouts", "–",
         "more runners, `rollout.engine=vllm`"),
    ),
    *_under(
        "time",
        ("time_rollout_s", "s", "sampling, environments included", "–", "more runners"),
        ("time_update_s", "s", "credit and optimiser steps", "–", "`learner.microbatch_tokens`, more learners"),
        ("time_diagnostics_s", "s", "the measurements above; 0 in iterations without one", "≤ 10 % of the run",
         "larger `diagnostics.interval`, fewer `num_prompts`"),
        ("time_wait_s", "s", "the learner's wait for the batch that is sampled beside it (`rollout.overlap`)", "near 0",
         "more runners"),
        ("learner_idle_share", "share", "of an iteration, without an update", "–", "`rollout.overlap`"),
        ("runner_idle_share", "share", "of an iteration, without rollouts", "–", "`rollout.overlap`"),
        ("time_sync_s", "s", "weights to the runners", "small", "–"),
        ("time_s", "s", "since the start of training, resumed parts added up", "–", "–"),
    ),
    *_under(
        "progress",
        ("iteration", "count", "finished iterations", "–", "–"),
        ("policy_version", "count", "updates that the policy has had", "–", "–"),
        ("policy_lag", "count", "updates since the version that sampled the batch; null of stored ones",
         "0, with `rollout.overlap` 1", "–"),
        ("empty_in_a_row", "count", "batches without anything to learn from, in a row", "0",
         "weaker filter, easier instances"),
        ("num_turns_lifetime", "count", "turns sampled for training", "–", "–"),
        ("num_reply_tokens_lifetime", "tokens", "tokens sampled for training", "–", "–"),
    ),
    *_under(
        "faults",
        ("num_lost_runners", "count", "env runners that died or were killed because they hung, and were restarted", "0",
         "their logs in Ray's session folder"),
        ("num_hung_runners", "count", "those among them that had not moved for `fault.hang_timeout_s`", "0",
         "likewise"),
        ("num_recycled_runners", "count", "env runners restarted because they were larger than `fault.max_runner_gib`",
         "rare", "an environment leaks memory"),
        ("num_replayed", "count", "episodes that were lost with their runner and played again", "0", "–"),
        ("runner_gib", "GiB", "resident memory of the largest env runner", "flat after some iterations",
         "an environment leaks: `fault.max_runner_gib`"),
        ("driver_gib", "GiB", "resident memory of the driver", "flat after some iterations", "report it"),
    ),
    *_under(
        "curriculum",
        ("levels_open", "count", "levels that may be played", "rises to all of them",
         "lower `raise_at`, levels closer together"),
        ("level_<n>_groups", "count", "groups of the batch at this level", "most where success is neither 0 nor 1",
         "–"),
        ("level_<n>_success", "share", "mean success of the level's last `window` groups", "rises",
         "an easier level before it"),
    ),
    *_under(
        "information",
        ("conditional_entropy_token", "nats per token", "H(Z|X)", "≥ 0.1",
         "low: entropy collapse, or a compact way to think; see `information_share`"),
        ("conditional_entropy_seq", "nats per thought", "H(Z|X)", "–", "–"),
        ("marginal_entropy_token", "nats per token", "H(Z)", "above H(Z|X)", "–"),
        ("marginal_entropy_seq", "nats per thought", "H(Z)", "above H(Z|X)", "–"),
        ("mutual_information_token", "nats per token", "I(X;Z)", "> 0", "template collapse"),
        ("mutual_information_seq", "nats per thought", "I(X;Z)", "rises towards log(`num_prompts`)",
         "template collapse: filter groups by reward std"),
        ("information_z_token", "std", "mean of matched − marginal over the std of marginal", "rises with success",
         "–"),
        ("information_z_seq", "std", "the same per thought", "rises with success", "–"),
        ("information_z_ema_token", "std", "the same with the running mean (decay 0.9) of that std",
         "rises with success", "–"),
        ("information_z_ema_seq", "std", "the same per thought", "rises with success", "–"),
        ("information_share", "share", "I_seq / H(X)", "≥ 0.5", "template collapse"),
        ("retrieval_1", "share", "thoughts whose own prompt is the likeliest one", "far above chance",
         "template collapse"),
        ("retrieval_2", "share", "among the 2 likeliest", "far above chance", "–"),
        ("retrieval_4", "share", "among the 4 likeliest", "far above chance", "–"),
        ("retrieval_8", "share", "among the 8 likeliest", "far above chance", "–"),
        ("retrieval_chance_1", "share", "what a policy that ignores its prompt reaches", "–", "–"),
        ("retrieval_chance_2", "share", "likewise", "–", "–"),
        ("retrieval_chance_4", "share", "likewise", "–", "–"),
        ("retrieval_chance_8", "share", "likewise", "–", "–"),
        ("num_thoughts", "count", "thoughts that were scored", "`diagnostics.num_prompts`",
         "replies without a thought"),
        ("num_prompts", "count", "different prompts among them", "> 1", "more groups"),
        ("regime", "1 to 4", "see above", "1 or 3", "–"),
    ),
    *_under(
        "gradients",
        ("reward_std", "reward", "std of returns within its groups, mean", "> 0 in most buckets",
         "as for `group_reward_std`"),
        ("task_norm", "norm", "gradient of the clipped surrogate, of the bucket's mean", "far above the regularisers'",
         "a filter, easier instances"),
        ("entropy_norm", "norm", "of the entropy, times `learner.entropy_coeff`", "well below `task_norm`",
         "lower `learner.entropy_coeff`, a filter"),
        ("kl_norm", "norm", "of the KL term, times `learner.kl_coeff` (> 0 only)", "well below `task_norm`",
         "lower `learner.kl_coeff`, a filter"),
    ),
    *_under(
        "games",
        ("win_rate_<seat>", "share", "share of games won, of those that told their outcome", "–",
         "in self-play the seats' rates add up with the draws to 1: read the evaluations"),
        ("draw_rate_<seat>", "share", "share drawn", "–", "perfect play of tic-tac-toe draws all"),
        ("loss_rate_<seat>", "share", "share lost", "–", "–"),
        ("return_<seat>", "reward", "mean return of the seat, illegal moves' cost included", "–",
         "where wins differ in worth (poker) this is what counts"),
        ("league_members", "count", "copies in the league", "–", "–"),
        ("league_score", "share", "1 a win, ½ a draw, against the league in this iteration", "–",
         "far below `league_win_rate` for long: the policy cannot beat its past"),
        ("<metric>_<policy>", "as the metric", "a metric of the learner, of one policy, where several learn", "–",
         "the plain name is their mean, sum (`num_trained_tokens`, `skipped_steps`) or maximum"),
    ),
)
# fmt: on
_PLAIN = {metric.name: metric for metric in METRICS if metric.heading not in _PREFIX}
_OF_A_POLICY = _PLAIN["<metric>_<policy>"]


def find_metric(logged: str, policies: Collection[str] = ()) -> Metric | None:
    """Finds the entry of a metric.

    Args:
        logged: the name that it is logged under; what stands before a slash names one of several environments.
        policies: ids of those that may have metrics of their own.

    Returns:
        None if it is not listed.
    """
    logged = logged.rpartition("/")[2]
    if logged in _PLAIN:
        return _PLAIN[logged]
    if any(logged.endswith(f"_{one}") and logged.removesuffix(f"_{one}") in _PLAIN for one in policies):
        return _OF_A_POLICY
    return next((metric for metric in METRICS if metric.is_name(logged)), None)


def heading_of(logged: str, policies: Collection[str] = ()) -> str:
    """Names TensorBoard's group of a metric; of one of several environments that is its label."""
    if "/" in logged:
        return logged.partition("/")[0]
    metric = find_metric(logged, policies)
    return NO_HEADING if metric is None else metric.heading


def label_of(logged: str) -> str:
    """Returns the short name of a metric for console and charts.

    Raises:
        KeyError: the metric is not listed.
    """
    metric = find_metric(logged)
    if metric is None:
        raise KeyError(logged)
    if "<" in metric.name:
        return logged.rpartition("/")[2].replace("_", " ")
    prefix = logged.removesuffix(metric.name).strip("_").replace("_", " ")
    return f"{metric.label}, {prefix}" if metric.heading in _PREFIX else metric.label


def unit_of(logged: str) -> str:
    """Returns the unit of a metric.

    Raises:
        KeyError: the metric is not listed.
    """
    metric = find_metric(logged)
    if metric is None:
        raise KeyError(logged)
    return metric.unit
