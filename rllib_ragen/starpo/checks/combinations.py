"""Checks of combinations of keys, when the config is read and not an hour into the run."""

from __future__ import annotations

from typing import Any

from ragen_envs.open_names import OpenNames
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.presets import algorithm_names
from rllib_ragen.config.schema import CreditSection, LearnerSection, RunConfig
from rllib_ragen.credit.filter_rules import FILTERS
from rllib_ragen.credit.registry import ESTIMATORS, estimator_names, make_estimator
from rllib_ragen.learner.losses.registry import LOSSES
from rllib_ragen.starpo.checks.environments import check_entries, check_env
from rllib_ragen.starpo.checks.games import check_no_game
from rllib_ragen.starpo.checks.offline import check_offline
from rllib_ragen.starpo.checks.rewards import check_rewards


def check_config(config: RunConfig, *, shipped_env: bool = True) -> RunConfig:
    """Checks that the keys of `config` fit together → `config`.

    Args:
        config: the config.
        shipped_env: False for a user's own environment, whose settings are not checked.

    Raises:
        ConfigError: they do not.
    """
    if config.envs:
        check_entries(config)
    elif shipped_env:
        check_env(config)
    else:
        check_no_game(config)
    _check_rollout(config)
    _check_credit(config)
    check_rewards(config)
    _check_learner(config)
    check_offline(config)
    return config


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
    _check_weight_transfer(config)
    if config.fault.max_runner_gib is not None and rollout.num_env_runners == 0:
        raise ConfigError(
            f"fault.max_runner_gib={config.fault.max_runner_gib:g} with rollout.num_env_runners=0: the driver cannot be"
            " restarted; allowed: null, or ≥ 1 env runners"
        )
    replies = {f"envs[{k}].max_reply_tokens": entry.max_reply_tokens for k, entry in enumerate(config.envs)}
    for key, tokens in {"rollout.max_reply_tokens": rollout.max_reply_tokens, **replies}.items():
        if tokens is not None and tokens >= rollout.max_context_tokens:
            raise ConfigError(
                f"{key}={tokens} must be below rollout.max_context_tokens={rollout.max_context_tokens}, which holds the"
                " prompt too"
            )


def _check_weight_transfer(config: RunConfig) -> None:
    way = config.vllm.weight_transfer
    if way == "object_store":
        return
    if config.rollout.engine != "vllm":
        raise ConfigError(
            f"vllm.weight_transfer={way} with rollout.engine={config.rollout.engine}: it is a way to vLLM's workers;"
            " allowed: rollout.engine=vllm"
        )
    if way == "adapters":
        if config.learner.lora_rank is None:
            raise ConfigError(
                "vllm.weight_transfer=adapters with learner.lora_rank=null: there are none; allowed: a rank ≥ 1"
            )
        return
    if config.learner.sharding == "fsdp2":
        raise ConfigError(
            "vllm.weight_transfer=broadcast with learner.sharding=fsdp2: the first learner sends alone, but has a part"
            " of the weights; allowed: vllm.weight_transfer=object_store, or learner.sharding=ddp"
        )
    shares = (config.learner.num_gpus_per_learner, config.rollout.num_gpus_per_env_runner)
    if min(shares) > 0 and any(share != int(share) for share in shares):
        raise ConfigError(
            f"vllm.weight_transfer=broadcast with learner.num_gpus_per_learner={shares[0]:g} and"
            f" rollout.num_gpus_per_env_runner={shares[1]:g}: NCCL wants a GPU for each member; allowed are whole GPUs,"
            " or vllm.weight_transfer=object_store"
        )


def _check_credit(config: RunConfig) -> None:
    _check_estimator(config)
    _check_filter(config.credit)
    limits = [("rollout.max_reply_tokens", config.rollout.max_reply_tokens)]
    limits += [(f"envs[{k}].max_reply_tokens", one.max_reply_tokens or 0) for k, one in enumerate(config.envs)]
    key, limit = min((one for one in limits if one[1]), key=lambda one: one[1])
    cache = config.credit.overlong_cache
    if cache is not None and cache > limit:
        raise ConfigError(
            f"credit.overlong_cache={cache} is more than a reply may have ({key}={limit}); allowed: 1 to {limit}, or"
            " null"
        )
    sampled = config.rollout.num_groups * config.rollout.group_size
    if config.learner.num_minibatches > sampled:
        raise ConfigError(
            f"learner.num_minibatches={config.learner.num_minibatches} is more than the {sampled} trajectories of an"
            " iteration (rollout.num_groups × rollout.group_size)"
        )


def who_compares(credit: CreditSection) -> str | None:
    """Names the key, with its value, that compares the trajectories of a group; None: each is judged by itself.

    Raises:
        ValueError: no such estimator.
    """
    comparing = {
        f"credit.estimator={credit.estimator}": make_estimator(credit).needs_group,
        f"credit.filter={credit.filter}": credit.filter != "none",
        f"credit.dynamic_sampling_rounds={credit.dynamic_sampling_rounds}": credit.dynamic_sampling_rounds > 0,
        f"credit.group_weighting={credit.group_weighting}": credit.group_weighting != "none",
        f"credit.reward_norm={credit.reward_norm}": credit.reward_norm != "none" and credit.reward_grouping == "group",
    }
    return next((key for key, compares in comparing.items() if compares), None)


def _check_estimator(config: RunConfig) -> None:
    credit = config.credit
    if credit.estimator in algorithm_names() and credit.estimator not in ESTIMATORS.names():
        raise ConfigError(
            f"credit.estimator: {credit.estimator} is a whole algorithm, of which the estimator is a part; give"
            f" --algorithm {credit.estimator}, or the keys of tune_configs/algorithms/{credit.estimator}.yaml; allowed"
            f" here: {', '.join(ESTIMATORS.names())}"
        )
    try:
        needs_group = make_estimator(credit).needs_group
    except (ValueError, TypeError) as error:
        raise ConfigError(str(error)) from None
    who = who_compares(credit)
    if config.rollout.group_size == 1 and who is not None:
        alone = [name for name in estimator_names() if not ESTIMATORS.resolve(name).needs_group]
        raise ConfigError(
            f"rollout.group_size=1 with {who}, which compares the trajectories of a group: allowed are ≥ 2"
            + (f", or a credit.estimator that does not: {', '.join(alone)}" if needs_group else "")
        )


def _check_filter(credit: CreditSection) -> None:
    name, value = credit.filter, credit.filter_value
    _verify("credit.filter", FILTERS, name)
    if name == "top_k_abs" and value != int(value):
        raise ConfigError(
            f"credit.filter_value={value:g} with credit.filter=top_k_abs: must be a number of groups, ≥ 1"
        )
    if name in ("top_p", "top_p_softmax", "top_k", "min_p") and value > 1:
        raise ConfigError(f"credit.filter_value={value:g} with credit.filter={name}: must be a share > 0 and ≤ 1")
    if name in ("top_p", "min_p") and credit.filter_metric in ("reward", "reward_sum"):
        raise ConfigError(
            f"credit.filter={name} with credit.filter_metric={credit.filter_metric}: a share of scores that may be"
            " negative means nothing; allowed with it are the other metrics, or the filters top_k, top_k_abs and"
            " top_p_softmax"
        )
    if name == "min_p" and credit.filter_direction == "smallest":
        raise ConfigError(
            "credit.filter_direction=smallest with credit.filter=min_p, which keeps what is near the largest score:"
            " allowed is largest"
        )
    if credit.dynamic_sampling_rounds > 0 and credit.filter_zero_spread:
        raise ConfigError(
            f"credit.filter_zero_spread=true with credit.dynamic_sampling_rounds={credit.dynamic_sampling_rounds},"
            " which replaces just those groups: allowed is false, or 0 rounds"
        )


def _verify(key: str, known: OpenNames[Any], name: str) -> None:
    try:
        known.verify(name, key)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _check_learner(config: RunConfig) -> None:
    learner = config.learner
    _verify("learner.loss", LOSSES, learner.loss)
    _check_adapters(learner)
    if learner.sharding == "fsdp2" and learner.num_learners < 2:
        raise ConfigError(
            f"learner.num_learners={learner.num_learners} with learner.sharding=fsdp2, which splits the weights among"
            " learners; allowed: ≥ 2, or learner.sharding=ddp"
        )
    if learner.norm_tokens is not None and learner.aggregation != "seq-mean-token-sum-norm":
        raise ConfigError(
            f"learner.norm_tokens={learner.norm_tokens} with learner.aggregation={learner.aggregation}, which does not"
            " use it; allowed: null, or learner.aggregation=seq-mean-token-sum-norm"
        )
    if learner.lr_schedule == "constant":
        if learner.decay_iterations is not None:
            raise ConfigError(
                f"learner.decay_iterations={learner.decay_iterations} with learner.lr_schedule=constant, which does not"
                " fall; allowed: null, or learner.lr_schedule=linear or cosine"
            )
    elif learner.warmup_iterations >= (learner.decay_iterations or config.iterations):
        raise ConfigError(
            f"learner.warmup_iterations={learner.warmup_iterations} leaves nothing of learner.lr_schedule="
            f"{learner.lr_schedule}; allowed: below {learner.decay_iterations or config.iterations}"
            f" ({'learner.decay_iterations' if learner.decay_iterations else 'iterations'})"
        )


def _check_adapters(learner: LearnerSection) -> None:
    for key in ("lora_alpha", "lora_targets"):
        if learner.lora_rank is None and getattr(learner, key) is not None:
            raise ConfigError(
                f"learner.{key}={getattr(learner, key)} with learner.lora_rank=null, which trains all weights; allowed:"
                " null, or a learner.lora_rank ≥ 1"
            )
    if learner.lora_targets == []:
        raise ConfigError("learner.lora_targets=[] leaves nothing to train; allowed: null, or names of linear layers")
