"""Scores log π(thought | prompt) of every thought after every prompt, with each prompt computed once."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from ray.rllib.core.learner.learner_group import LearnerGroup
from torch import Tensor

from rllib_ragen.diagnostics.information import Array
from rllib_ragen.faults.heartbeat import beat
from rllib_ragen.learner.distributed import missing_passes
from rllib_ragen.learner.learner import StarPOLearner
from rllib_ragen.learner.learner_calls import on_every_learner
from rllib_ragen.learner.microbatches import plan_microbatches
from rllib_ragen.models.llm_module import LLMRLModule
from rllib_ragen.types import IntArray


def score_on_learners(
    learners: LearnerGroup, module_id: str, prompts: Sequence[IntArray], thoughts: Sequence[IntArray]
) -> Array:
    """Computes `score_thoughts` [N, M], with the prompts divided among the learners."""
    count = max(1, len(learners))

    def columns(learner: StarPOLearner) -> Array:
        module: LLMRLModule = learner.module[module_id].unwrapped()
        own = prompts[learner.index :: count]
        return score_thoughts(module, own, thoughts, learner.config.microbatch_tokens)

    scores = np.zeros((len(thoughts), len(prompts)))
    for index, part in enumerate(on_every_learner(learners, columns)):
        scores[:, index::count] = part
    return scores


def score_thoughts(
    module: LLMRLModule, prompts: Sequence[IntArray], thoughts: Sequence[IntArray], budget: int
) -> Array:
    """Computes log-probs in nats at the sampling temperature, summed over each thought's tokens, without randomness.

    Args:
        module: the policy.
        prompts: M token sequences, none empty.
        thoughts: N token sequences, none empty.
        budget: padded tokens of one forward pass, the prompt's keys included.

    Returns:
        [N, M]
    """
    # A collapsing policy says the same again and again: each distinct thought is computed once.
    rank: dict[bytes, int] = {}
    which = [rank.setdefault(thought.tobytes(), len(rank)) for thought in thoughts]
    distinct = [thoughts[which.index(k)] for k in range(len(rank))]
    scores = np.zeros((len(distinct), len(prompts)))
    plans = [plan_microbatches([len(prompt) + len(thought) for thought in distinct], budget) for prompt in prompts]
    passes = sum(len(plan) + (len(prompt) > 1) for prompt, plan in zip(prompts, plans, strict=True))
    missing = missing_passes(module, passes)
    with torch.no_grad():
        for j, (prompt, plan) in enumerate(zip(prompts, plans, strict=True)):
            cache = _prefill(module, prompt)
            for indices in plan:
                scores[indices, j] = _after(module, cache, int(prompt[-1]), [distinct[i] for i in indices])
        for _ in range(missing):
            module.lm(input_ids=torch.zeros((1, 1), dtype=torch.int64, device=module.llm.device), use_cache=False)
    return scores[which]


def _prefill(module: LLMRLModule, prompt: IntArray) -> Any:
    """Computes keys and values of all but the prompt's last token, which predicts a thought's first one."""
    if len(prompt) == 1:
        return None
    ids = torch.from_numpy(prompt[None, :-1].astype(np.int64)).to(module.llm.device)
    return module.lm(input_ids=ids, use_cache=True, logits_to_keep=1).past_key_values


def _after(module: LLMRLModule, cache: object, last: int, thoughts: Sequence[IntArray]) -> Array:
    """Returns [len(thoughts)] scores after one prompt. Right padding needs no mask: real tokens do not attend to it."""
    width = max(map(len, thoughts))
    targets = np.zeros((len(thoughts), width), np.int64)
    real = np.zeros((len(thoughts), width), np.bool_)
    for i, thought in enumerate(thoughts):
        targets[i, : len(thought)] = thought
        real[i, : len(thought)] = True
    inputs = np.concatenate([np.full((len(thoughts), 1), last), targets[:, :-1]], axis=1)
    device = module.llm.device
    ids, wanted, mask = (torch.from_numpy(array).to(device) for array in (inputs, targets, real))
    beat()
    logits = module.lm(input_ids=ids, past_key_values=_repeated(cache, len(thoughts)), use_cache=True).logits
    scaled = logits.float() / module.model_config["temperature"]
    logprobs: Tensor = scaled.gather(-1, wanted[..., None])[..., 0] - scaled.logsumexp(-1)
    summed: Array = (logprobs.double() * mask).sum(1).cpu().numpy()
    return summed


def _repeated(cache: Any, rows: int) -> Any:
    """Returns a copy of a one-row cache with `rows` rows, because a forward pass writes to its cache."""
    if cache is None:
        return None
    wide = copy.deepcopy(cache)
    wide.batch_repeat_interleave(rows)
    return wide
