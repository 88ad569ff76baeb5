"""Every token of a reply has a random number of its own, from its request's seed."""

from __future__ import annotations

import numpy as np
import torch

from rllib_ragen.rollout.engines.hf import HFEngine
from rllib_ragen.rollout.engines.requests import Request, sampling_tensors
from rllib_ragen.types import Sampling
from tests.rollout.build import VOCAB, make_model, run_all

SEEDS = (0, 1, 2**62)
LENGTH = 40


def test_a_request_draws_one_number_per_token() -> None:
    request = Request.make(0, [5], Sampling(LENGTH, (), seed=7), room=LENGTH)
    expected = np.random.default_rng(7).random(LENGTH)
    assert len(set(expected.tolist())) == LENGTH
    for number in expected:
        (used,) = sampling_tensors([request], torch.device("cpu")).uniforms.tolist()
        assert used == number
        request.push(1, 0.0)


def test_a_uniform_models_tokens_are_its_seeds_numbers() -> None:
    """All logits are equal, so token k is the k-th uniform number of the seed, scaled to the vocabulary."""
    model = make_model(tie_word_embeddings=False)
    with torch.no_grad():
        model.lm_head.weight.zero_()
    engine = HFEngine(model, max_context=128)
    requests = {key: ([5, 6, 7], Sampling(LENGTH, (), seed=seed)) for key, seed in enumerate(SEEDS)}
    for key, reply in run_all(engine, requests).items():
        drawn = np.random.default_rng(SEEDS[key]).random(LENGTH) * VOCAB
        np.testing.assert_allclose(np.asarray(reply.token_ids) + 0.5, drawn, atol=0.5 + 1e-6)
