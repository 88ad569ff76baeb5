"""What the keys of a run must say together; refused when the config is read, not an hour into the run."""

from __future__ import annotations

import difflib
from dataclasses import asdict

from envs.registry import check_env_name, make_text_env
from rllib_ragen.config import RunConfig
from rllib_ragen.credit.registry import estimator_names, make_estimator


class ConfigError(ValueError):
    """Bad input: its text is one sentence that names the key and what is allowed."""


def check_config(config: RunConfig) -> RunConfig:
    """`config` itself, if its keys fit together.

    Raises:
        ConfigError: they do not.
    """
    _check_env(config)
    _check_rollout(config)
    _check_credit(config)
    return config


def _check_env(config: RunConfig) -> None:
    try:
        check_env_name(config.env.name)
    except ValueError as error:
        raise ConfigError(f"env.name: {error}") from None
    try:
        make_text_env(config.env.name, config.env.task, asdict(config.text_limits())).close()
    except (ValueError, TypeError) as error:
        raise ConfigError(f"env.task: {error}") from None


def _check_rollout(config: RunConfig) -> None:
    rollout = config.rollout
    if rollout.top_p < 1 or rollout.top_k > 0:
        key = f"rollout.top_p={rollout.top_p:g}" if rollout.top_p < 1 else f"rollout.top_k={rollout.top_k}"
        raise ConfigError(
            f"{key}: training samples from the whole vocabulary (top_p=1, top_k=0), because the learner's"
            " log-probs are over all tokens and a truncated sampler's are not: every ratio would be biased"
        )
    if rollout.engine == "vllm" and rollout.num_env_runners == 0:
        raise ConfigError(
            "rollout.num_env_runners=0 with rollout.engine=vllm: a vLLM engine needs a process of its own; allowed: ≥ 1"
        )
    if rollout.overlap != "off" and rollout.num_env_runners == 0:
        raise ConfigError(
            f"rollout.num_env_runners=0 with rollout.overlap={rollout.overlap}: sampling beside learning needs"
            " processes of its own; allowed: ≥ 1"
        )
    if rollout.max_reply_tokens >= rollout.max_context_tokens:
        raise ConfigError(
            f"rollout.max_reply_tokens={rollout.max_reply_tokens} must be below"
            f" rollout.max_context_tokens={rollout.max_context_tokens}, which holds the prompt too"
        )


def _check_credit(config: RunConfig) -> None:
    credit, rollout = config.credit, config.rollout
    if credit.estimator not in estimator_names():
        raise ConfigError(
            f"credit.estimator: unknown {credit.estimator!r}; {nearest(credit.estimator, estimator_names())}"
        )
    needs_group = make_estimator(credit).needs_group
    if rollout.group_size == 1 and (needs_group or credit.filter != "none"):
        who = f"credit.estimator={credit.estimator}" if needs_group else f"credit.filter={credit.filter}"
        raise ConfigError(
            f"rollout.group_size=1 with {who}, which compares the trajectories of a group: allowed are ≥ 2"
            + ("" if not needs_group else ", or credit.estimator=gae")
        )
    sampled = rollout.num_groups * rollout.group_size
    if config.learner.num_minibatches > sampled:
        raise ConfigError(
            f"learner.num_minibatches={config.learner.num_minibatches} is more than the {sampled} trajectories of an"
            " iteration (rollout.num_groups × rollout.group_size)"
        )


def nearest(name: str, allowed: list[str]) -> str:
    """`did you mean x? allowed: x, y`, or only the second part if nothing is near."""
    near = difflib.get_close_matches(name, allowed, n=1)
    return (f"did you mean {near[0]}? " if near else "") + f"allowed: {', '.join(allowed)}"
