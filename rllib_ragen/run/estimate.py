"""What a run will need, by arithmetic from its config and the model's shape: memory, and the cost of an iteration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from rllib_ragen.config.environments import worlds
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.credit.registry import make_estimator
from rllib_ragen.models.shape import ModelShape

GIB = 1 << 30
"""Bytes of a GiB."""
_FLOAT32, _BFLOAT16 = 4, 2
"""Bytes of a number."""
_MOMENTS = 2
"""Numbers that Adam keeps of every weight."""
_CHUNKS = 4
"""Chunks of logits that are there at the peak (models/token_scores.py)."""


@dataclass(frozen=True)
class Process:
    """What one kind of process holds."""

    name: str
    count: int
    gpus: float
    """GPUs of each; 0: it works on a CPU, and this is its own memory."""
    parts: Mapping[str, int]
    """Bytes on each of its GPUs (of a process with several: of one of them), by what they are for."""

    @property
    def total(self) -> int:
        """Bytes in all."""
        return sum(self.parts.values())


@dataclass(frozen=True)
class Cost:
    """Of one iteration, at most: every reply as long as it may be, every context full, no group filtered out."""

    trajectories: int
    sampled_tokens: int
    """Tokens of replies."""
    trained_tokens: int
    """The same tokens, as often as the update goes over them."""
    sampling_flops: float
    update_flops: float


def memory(config: RunConfig, shape: ModelShape, parameters: int, chunk_elements: int) -> list[Process]:
    """Returns learner and env runner.

    Args:
        config: checked.
        shape: of the model.
        parameters: its weights.
        chunk_elements: logits that the learner makes at a time.
    """
    return [_learner(config, shape, parameters, chunk_elements), _runner(config, shape, parameters)]


def _learner(config: RunConfig, shape: ModelShape, parameters: int, chunk_elements: int) -> Process:
    learner = config.learner
    parts_of_weights = max(1, learner.num_learners) if learner.sharding == "fsdp2" else 1
    half = config.model.dtype == "bfloat16"
    adapters = learner.lora_rank is not None
    trained = parameters if learner.lora_rank is None else shape.lora_parameters(learner.lora_rank)
    critic = shape.hidden**2 + 2 * shape.hidden + 1 if make_estimator(config.credit).needs_values else 0
    held = parameters + critic + (trained if adapters else 0)
    tokens = _tokens_of_a_pass(config)
    layers = shape.layers * shape.kept_bytes(_BFLOAT16 if half else _FLOAT32)
    if learner.gradient_checkpointing:
        layers = shape.kept_bytes(_BFLOAT16 if half else _FLOAT32) + shape.layers * shape.hidden * _FLOAT32
    parts = {
        "weights": held * _FLOAT32 // parts_of_weights,
        "gradients": (trained + critic) * _FLOAT32 // parts_of_weights,
        "Adam": _MOMENTS * (trained + critic) * _FLOAT32 // parts_of_weights,
        # Adapters leave the reference in the weights that they are on.
        "reference": 0 if adapters or learner.kl_coeff == 0 else parameters * _FLOAT32 // parts_of_weights,
        "bfloat16 copies": parameters * _BFLOAT16 // parts_of_weights if half and not adapters else 0,
        "activations": tokens * layers,
        "logits": _CHUNKS * _FLOAT32 * min(tokens * shape.vocabulary, chunk_elements),
    }
    return Process("learner", max(1, learner.num_learners), learner.num_gpus_per_learner, _present(parts))


def _tokens_of_a_pass(config: RunConfig) -> int:
    """Returns padded tokens of the largest micro-batch: a row longer than the budget goes alone."""
    rollout, learner = config.rollout, config.learner
    rows = -(-rollout.num_groups * rollout.group_size // learner.num_minibatches)
    return min(max(learner.microbatch_tokens, rollout.max_context_tokens), rows * rollout.max_context_tokens)


def _runner(config: RunConfig, shape: ModelShape, parameters: int) -> Process:
    rollout = config.rollout
    width = _BFLOAT16 if config.model.dtype == "bfloat16" else _FLOAT32
    # One engine's model is spread over its GPUs (tensor parallel).
    spread = max(1, int(rollout.num_gpus_per_env_runner))
    episodes = -(-rollout.num_groups * rollout.group_size // max(1, rollout.num_env_runners))
    at_once = min(rollout.max_concurrent, episodes)
    shared = rollout.num_env_runners == 0 and config.learner.num_learners == 0 and width == _FLOAT32
    cache = at_once * rollout.max_context_tokens * shape.kv_bytes(width)
    if config.vllm.kv_cache_gib is not None and rollout.engine == "vllm":
        cache = int(config.vllm.kv_cache_gib * GIB) * spread
    parts = {"weights": 0 if shared else parameters * width // spread, "KV cache": cache // spread}
    return Process("env runner", max(1, rollout.num_env_runners), rollout.num_gpus_per_env_runner, _present(parts))


def _present(parts: Mapping[str, int]) -> dict[str, int]:
    return {name: size for name, size in parts.items() if size}


def cost(config: RunConfig, shape: ModelShape, parameters: int) -> Cost:
    """Returns the cost of an iteration, at most.

    A backward pass is two forward passes, three with gradient checkpointing. Further passes without gradient: the
    reference's, the critic's values, and the old log-probs of truncated importance sampling. Dynamic sampling plays at
    most so many rounds more. Measurements of information and gradients are not counted.
    """
    rollout, learner = config.rollout, config.learner
    context = rollout.max_context_tokens
    trajectories = rollout.num_groups * rollout.group_size
    replies = _reply_tokens(config)
    played = trajectories * (1 + config.credit.dynamic_sampling_rounds)
    forward = shape.forward_flops(trajectories * context, context, parameters)
    passes = learner.num_epochs * (4 if learner.gradient_checkpointing else 3)
    passes += (learner.kl_coeff > 0) + make_estimator(config.credit).needs_values
    passes += learner.tis_cap is not None and learner.num_minibatches * learner.num_epochs > 1
    return Cost(
        trajectories=trajectories,
        sampled_tokens=played * replies,
        trained_tokens=trajectories * replies * learner.num_epochs,
        sampling_flops=shape.forward_flops(played * context, context, parameters),
        update_flops=passes * forward,
    )


def _reply_tokens(config: RunConfig) -> int:
    """Returns the reply tokens of a trajectory at most; of several environments the mean, by their shares."""
    found, context = worlds(config), config.rollout.max_context_tokens
    most = [
        max(min(one.env.max_turns * one.rollout.max_reply_tokens, context) for one in world.levels) for world in found
    ]
    total = sum(world.weight for world in found)
    return math.ceil(sum(world.weight / total * tokens for world, tokens in zip(found, most, strict=True)))
