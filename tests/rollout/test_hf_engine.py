"""The hf engine: exact, reproducible, independent of the batch, and robust."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import LlamaForCausalLM, MistralConfig, MistralForCausalLM

from rllib_ragen.rollout.engines.base import EngineFailure
from rllib_ragen.rollout.engines.hf import HFEngine
from rllib_ragen.rollout.engines.requests import Request
from rllib_ragen.types import Sampled, Sampling
from tests.rollout.build import VOCAB, generate, make_model, plain_copy, prompts, run_all, run_raw, worst_gap

STOPS = tuple(range(8))
BOUND = 1e-5


@pytest.mark.parametrize(("episodes", "rows"), [(12, 16), (20, 6)], ids=["rows to spare", "rows change hands"])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_ragged_multi_turn_logprobs_equal_the_plain_forward(episodes: int, rows: int, temperature: float) -> None:
    model = make_model()
    twin = plain_copy(model)
    engine = HFEngine(model, max_context=400, max_rows=rows)
    rng = np.random.default_rng(1)
    contexts = dict(enumerate(prompts(episodes)))
    turns = dict.fromkeys(contexts, 0)

    def ask(key: int) -> None:
        settings = Sampling(int(rng.integers(2, 30)), STOPS, temperature, seed=100 * key + turns[key])
        engine.add(key, contexts[key], settings)

    for key in contexts:
        ask(key)
    checked = 0
    while finished := engine.poll():
        for key, reply in finished:
            assert isinstance(reply, Sampled)
            assert worst_gap(twin, contexts[key], reply, temperature) <= BOUND
            checked += len(reply.token_ids)
            turns[key] += 1
            contexts[key] = contexts[key] + reply.token_ids + rng.integers(10, VOCAB, rng.integers(1, 25)).tolist()
            if turns[key] < 4:
                ask(key)
            else:
                engine.forget(key)
    assert set(turns.values()) == {4} and checked > 300


def test_a_seeded_reply_is_the_same_alone_and_in_any_batch(model: LlamaForCausalLM) -> None:
    engine = HFEngine(model, max_context=200, max_rows=16)
    requests = {key: (prompt, Sampling(25, STOPS, seed=key)) for key, prompt in enumerate(prompts(16))}
    together = run_all(engine, requests)
    for key in (0, 7, 15):
        engine.reset()
        alone = run_all(engine, {key: requests[key]})[key]
        assert alone.token_ids == together[key].token_ids
        assert alone.logprobs == pytest.approx(together[key].logprobs, abs=BOUND)
    other_seed = run_all(engine, {99: (requests[0][0], Sampling(25, STOPS, seed=12345))})[99]
    assert other_seed.token_ids != together[0].token_ids


def test_greedy_replies_equal_transformers_generate(model: LlamaForCausalLM) -> None:
    twin = plain_copy(model)
    engine = HFEngine(model, max_context=200)
    requests = {key: (prompt, Sampling(20, (), temperature=0.0)) for key, prompt in enumerate(prompts(8))}
    for key, reply in run_all(engine, requests).items():
        prompt = torch.tensor([requests[key][0]])
        generated = generate(twin, prompt, max_new_tokens=20, eos_token_id=None)
        assert reply.token_ids == generated[0, prompt.shape[1] :].tolist()
        assert worst_gap(twin, requests[key][0], reply) <= BOUND


def test_sampling_follows_the_model_distribution(model: LlamaForCausalLM) -> None:
    twin = plain_copy(model)
    prompt = [10, 11]
    engine = HFEngine(model, max_context=100, max_rows=512)
    count = 4000
    requests = {key: (prompt, Sampling(1, (), seed=key)) for key in range(count)}
    drawn = np.bincount([reply.token_ids[0] for reply in run_all(engine, requests).values()], minlength=VOCAB)
    with torch.no_grad():
        expected = twin(torch.tensor([prompt])).logits[0, -1].softmax(-1).numpy() * count
    likely = expected >= 5
    chi_square = float((((drawn - expected) ** 2) / expected)[likely].sum())
    assert chi_square < likely.sum() + 5 * np.sqrt(2 * likely.sum())


def test_S1_logprobs_are_those_of_the_tempered_and_truncated_distribution(model: LlamaForCausalLM) -> None:
    twin = plain_copy(model)
    engine = HFEngine(model, max_context=200)
    prompt = prompts(1)[0]
    cold = run_all(engine, {0: (prompt, Sampling(20, (), temperature=0.5, seed=1))})[0]
    assert worst_gap(twin, prompt, cold, temperature=0.5) <= BOUND
    assert worst_gap(twin, prompt, cold, temperature=1.0) > 0.1
    cut = run_all(engine, {1: (prompt, Sampling(20, (), top_p=0.5, top_k=20, seed=1))})[1]
    for position, (token, logprob) in enumerate(zip(cut.token_ids, cut.logprobs, strict=True)):
        with torch.no_grad():
            probs = twin(torch.tensor([prompt + cut.token_ids[:position]])).logits[0, -1].softmax(-1)
        ordered, order = probs.sort(descending=True)
        ordered = ordered[:20] / ordered[:20].sum()
        kept = int((ordered.cumsum(0) - ordered < 0.5).sum())
        assert token in order[:kept].tolist()
        wanted = torch.log(probs[token] / probs[order[:kept]].sum())
        assert logprob == pytest.approx(float(wanted), abs=1e-4)


@pytest.mark.parametrize("tied", [True, False])
def test_S2_updated_weights_equal_a_fresh_engine_and_leave_no_stale_cache(tied: bool) -> None:
    old, new = make_model(0, tie_word_embeddings=tied), make_model(1, tie_word_embeddings=tied)
    request = {0: (prompts(1)[0], Sampling(20, STOPS, seed=3))}
    fresh = run_all(HFEngine(plain_copy(new), max_context=200, version=1), request)[0]
    engine = HFEngine(old, max_context=200)
    before = run_all(engine, request)[0]
    weights = {name: tensor for name, tensor in new.state_dict().items() if not (tied and name == "lm_head.weight")}
    engine.load_weights(weights, version=1)
    after = run_all(engine, request)[0]
    assert after == fresh and after.policy_version == 1
    assert before.policy_version == 0 and before.token_ids != after.token_ids


def test_S2_a_shared_model_updated_in_place_needs_only_its_new_version(model: LlamaForCausalLM) -> None:
    engine = HFEngine(model, max_context=200)
    request = {0: (prompts(1)[0], Sampling(20, STOPS, seed=3))}
    run_all(engine, request)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.3)
    engine.weights_changed(5)
    after = run_all(engine, request)[0]
    assert after.policy_version == 5
    assert worst_gap(plain_copy(model), request[0][0], after) <= BOUND


def test_wrong_weights_are_refused_before_anything_is_touched(model: LlamaForCausalLM) -> None:
    engine = HFEngine(model, max_context=200)
    good = {name: tensor + 1 for name, tensor in model.state_dict().items()}
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    norm = "model.norm.weight"
    bad = {
        "has not": {**good, "model.nonsense": torch.zeros(1)},
        "lack": {name: tensor for name, tensor in good.items() if name != norm},
        "shape": {**good, norm: torch.zeros(3)},
    }
    for message, weights in bad.items():
        with pytest.raises(ValueError, match=message):
            engine.load_weights(weights, 1)
    untied = {name: tensor for name, tensor in good.items() if "embed" not in name and "lm_head" not in name}
    with pytest.raises(ValueError, match="lack"):
        engine.load_weights(untied, 1)
    assert engine.version == 0
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    engine.add(0, [10, 11], Sampling(5, ()))
    with pytest.raises(RuntimeError, match="in flight"):
        engine.load_weights(good, 1)


def test_N1_non_finite_logits_fail_their_own_request_and_leave_no_trace() -> None:
    model = make_model(tie_word_embeddings=False)
    twin = plain_copy(model)
    poison = STOPS[3]  # nobody can sample it and go on
    with torch.no_grad():
        model.model.embed_tokens.weight[poison] = torch.nan
    engine = HFEngine(model, max_context=120, max_rows=4)
    sampling = Sampling(10, STOPS, seed=0)
    requests = {key: (prompt, sampling) for key, prompt in enumerate(prompts(4, high=40))}
    requests[2] = ([20] * 5 + [poison] + [20] * 40, sampling)
    results = run_raw(engine, requests)
    assert isinstance(results[2], EngineFailure) and "non-finite" in results[2].error
    for key in (0, 1, 3):
        reply = results[key]
        assert isinstance(reply, Sampled), reply
        assert worst_gap(twin, requests[key][0], reply) <= BOUND
    # The short one comes first and gets the freed row, whose later positions the long ones make visible.
    later = run_all(engine, {20: ([30, 31], sampling)} | {10 + key: requests[key] for key in (0, 1, 3)})
    assert worst_gap(twin, [30, 31], later[20]) <= BOUND


def test_L2_a_request_that_cannot_be_served_fails_alone(model: LlamaForCausalLM) -> None:
    engine = HFEngine(model, max_context=64)
    sampling = Sampling(5, ())
    requests = {0: ([10] * 64, sampling), 1: ([VOCAB], sampling), 2: ([], sampling), 3: ([10] * 62, sampling)}
    results = run_raw(engine, requests)
    assert all(isinstance(results[key], EngineFailure) for key in (0, 1, 2))
    last = results[3]
    assert isinstance(last, Sampled) and len(last.token_ids) == 2 and not last.finished


def test_stop_tokens_are_kept_and_say_that_the_reply_is_finished(model: LlamaForCausalLM) -> None:
    engine = HFEngine(model, max_context=300)
    everything = run_all(engine, {0: ([10, 11], Sampling(50, tuple(range(200)), seed=2))})[0]
    assert everything.finished and everything.token_ids[-1] < 200
    assert all(token >= 200 for token in everything.token_ids[:-1])


def test_an_edited_history_is_not_answered_from_the_cache(model: LlamaForCausalLM) -> None:
    twin = plain_copy(model)
    engine = HFEngine(model, max_context=200)
    first, second = prompts(2, low=30)
    run_all(engine, {0: (first, Sampling(10, STOPS, seed=0))})
    mixed = first[:10] + second
    assert worst_gap(twin, mixed, run_all(engine, {0: (mixed, Sampling(10, STOPS, seed=0))})[0]) <= BOUND


def test_sampling_neither_trains_nor_changes_the_mode_of_the_model(model: LlamaForCausalLM) -> None:
    model.config.attention_dropout = 0.5
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.5
    engine = HFEngine(model.train(), max_context=200)
    prompt = prompts(1)[0]
    reply = run_all(engine, {0: (prompt, Sampling(10, STOPS, seed=0))})[0]
    assert model.training
    assert worst_gap(plain_copy(model), prompt, reply) <= BOUND
    model(torch.tensor([prompt])).logits.sum().backward()


def test_models_it_cannot_serve_are_refused_with_the_reason(model: LlamaForCausalLM) -> None:
    with pytest.raises(ValueError, match="model's length of 2048"):
        HFEngine(model, max_context=4096)
    windowed = MistralForCausalLM(
        MistralConfig(vocab_size=50, hidden_size=32, intermediate_size=32, num_hidden_layers=1, sliding_window=16)
    )
    with pytest.raises(ValueError, match="sliding window of 16"):
        HFEngine(windowed, max_context=64)


def test_one_key_has_one_request(model: LlamaForCausalLM) -> None:
    engine = HFEngine(model, max_context=64)
    engine.add(0, [10], Sampling(5, ()))
    with pytest.raises(ValueError, match="in flight"):
        engine.add(0, [10], Sampling(5, ()))
    engine.forget(0)
    assert engine.poll() == []


def test_prompts_that_begin_alike_are_computed_once_and_answered_exactly(model: LlamaForCausalLM) -> None:
    twin = plain_copy(model)
    computed: list[int] = []

    class Counting(HFEngine):
        def _prefill_pass(self, batch: list[Request]) -> torch.Tensor:
            computed.append(sum(request.num_new for request in batch))
            return super()._prefill_pass(batch)

    system, *tails = prompts(5, low=40, high=60)
    group_prompts = [system + tail for tail in tails for _ in range(3)]
    engine = Counting(model, max_context=200, max_rows=16)
    requests = {key: (prompt, Sampling(8, STOPS, seed=key)) for key, prompt in enumerate(group_prompts)}
    for key, reply in run_all(engine, requests).items():
        assert worst_gap(twin, requests[key][0], reply) <= BOUND
    # The system message once, each group's own part once, and one token of every further member.
    assert sum(computed) == len(system) + sum(len(tail) for tail in tails) + 8
    for key in requests:
        engine.forget(key)
    for key, reply in run_all(engine, requests).items():
        assert worst_gap(twin, requests[key][0], reply) <= BOUND
    assert sum(computed) == 2 * (len(system) + sum(len(tail) for tail in tails) + 8), "a freed row was copied from"
