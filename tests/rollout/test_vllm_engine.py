"""The vLLM engine keeps the hf engine's promises: same semantics, same log-probs, weights replaced in place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

import rllib_ragen.models.tiny
from ragen_envs.registry import make_text_env
from ragen_envs.text import TextEnv
from rllib_ragen.models.weight_channel import Sender, specs_of
from rllib_ragen.rollout.engines.base import EngineDead, EngineFailure
from rllib_ragen.rollout.statistics import rollout_statistics
from rllib_ragen.types import Sampled, Sampling
from tests.rollout import vllm_process
from tests.rollout.build import VOCAB, generate, logits_of, make_model, prompts, worst_gap
from tests.rollout.vllm_process import Requests, VLLMProcess, Weights

pytestmark = pytest.mark.vllm

STOPS = tuple(range(8))
BOUND = 1e-5
"""Of |log-prob difference| in fp32. Measured: 4e-6 on random models; 1.2e-5 (mean 4e-7) on the embedded one, whose
rare tokens have log-probs that fp32 itself holds no better (transformers' own forward: 2.3e-5 from float64)."""
TINY = Path(rllib_ragen.models.tiny.__file__).parent / "checkpoint"


@pytest.fixture(scope="module")
def process() -> Iterator[VLLMProcess]:
    """One child process for the whole module."""
    with vllm_process.vllm_process() as child:
        yield child


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Model folders: two sets of weights, tied and untied."""
    root = tmp_path_factory.mktemp("models")
    for tied in (True, False):
        for seed in (0, 1):
            make_model(seed, tie_word_embeddings=tied).save_pretrained(root / f"{tied}{seed}")
    return {folder.name: folder for folder in root.iterdir()}


@pytest.fixture
def ready(process: VLLMProcess, folders: dict[str, Path]) -> VLLMProcess:
    """The child with an engine on the tied model of seed 0, started once."""
    if getattr(process, "folder", None) != "True0":
        process.call(vllm_process.start, folders["True0"])
        process.folder = "True0"  # type: ignore[attr-defined]
    return process


def ask(process: VLLMProcess, requests: Requests) -> dict[int, Sampled]:
    """Replies to all requests; none may fail."""
    results = process.call(vllm_process.ask, requests)
    replies = {key: reply for key, reply in results.items() if isinstance(reply, Sampled)}
    assert replies.keys() == results.keys(), results
    return replies


def weights_of(model: PreTrainedModel) -> Weights:
    """State dict as arrays, tied entries once."""
    return {name: tensor.detach().numpy().copy() for name, tensor in model.named_parameters()}


@pytest.mark.parametrize("temperature", [1.0, 0.7, 0.0])
def test_S1_logprobs_equal_the_plain_transformers_forward(ready: VLLMProcess, temperature: float) -> None:
    model = make_model()
    requests = {key: (p, Sampling(25, STOPS, temperature, seed=key)) for key, p in enumerate(prompts(16))}
    replies = ask(ready, requests)
    for key, reply in replies.items():
        assert worst_gap(model, requests[key][0], reply, temperature or 1.0) <= BOUND
        assert reply.finished == (reply.token_ids[-1] in STOPS)
        assert not set(reply.token_ids[:-1]) & set(STOPS)
    if temperature == 0.7:
        assert max(worst_gap(model, requests[key][0], reply, 1.0) for key, reply in replies.items()) > 0.1


def test_S1_truncated_sampling_gives_renormalised_logprobs(ready: VLLMProcess) -> None:
    model = make_model()
    prompt = prompts(1)[0]
    reply = ask(ready, {0: (prompt, Sampling(10, (), top_k=5, seed=1))})[0]
    for position, (token, logprob) in enumerate(zip(reply.token_ids, reply.logprobs, strict=True)):
        best = logits_of(model, prompt + reply.token_ids[:position])[-1].topk(5)
        assert token in best.indices.tolist()
        wanted = best.values.log_softmax(-1)[best.indices.tolist().index(token)]
        assert logprob == pytest.approx(float(wanted), abs=1e-4)


def test_greedy_replies_equal_transformers_generate(ready: VLLMProcess) -> None:
    model = make_model()
    requests = {key: (p, Sampling(20, (), temperature=0.0)) for key, p in enumerate(prompts(8))}
    for key, reply in ask(ready, requests).items():
        ids = torch.tensor([requests[key][0]])
        generated = generate(model, ids, max_new_tokens=20, eos_token_id=None)
        assert reply.token_ids == generated[0, ids.shape[1] :].tolist()


def test_a_seeded_reply_is_the_same_alone_and_in_any_batch(ready: VLLMProcess) -> None:
    big_seed = 2**63 - 2
    requests = {key: (p, Sampling(25, STOPS, seed=big_seed - key)) for key, p in enumerate(prompts(16))}
    together = ask(ready, requests)
    for key in (0, 7, 15):
        alone = ask(ready, {key: requests[key]})[key]
        assert alone.token_ids == together[key].token_ids
        assert alone.logprobs == pytest.approx(together[key].logprobs, abs=BOUND)
    assert ask(ready, {0: (requests[0][0], Sampling(25, STOPS, seed=1))})[0].token_ids != together[0].token_ids


def test_long_seeded_prompts_are_taken_whole(ready: VLLMProcess) -> None:
    requests = {key: (p, Sampling(5, (), seed=key)) for key, p in enumerate(prompts(48, low=300, high=301))}
    assert len(ask(ready, requests)) == 48


def test_L2_a_request_that_cannot_be_served_fails_alone(ready: VLLMProcess) -> None:
    sampling = Sampling(5, ())
    requests = {0: ([10] * 512, sampling), 1: ([VOCAB], sampling), 2: ([], sampling), 3: ([10] * 510, sampling)}
    results = ready.call(vllm_process.ask, requests)
    assert all(isinstance(results[key], EngineFailure) for key in (0, 1, 2))
    last = results[3]
    assert isinstance(last, Sampled) and len(last.token_ids) == 2 and not last.finished


def test_one_engine_per_process(ready: VLLMProcess, folders: dict[str, Path]) -> None:
    with pytest.raises(RuntimeError, match="already has a vLLM engine"):
        ready.call(vllm_process.start_second, folders["True0"])


def test_wrong_weights_are_refused_and_the_engine_lives_on(ready: VLLMProcess) -> None:
    request = {0: (prompts(1)[0], Sampling(10, STOPS, seed=0))}
    before = ask(ready, request)
    good = dict(weights_of(make_model(1)))
    norm = "model.norm.weight"
    bad: dict[str, Weights] = {
        "has not": {**good, "model.nonsense": np.zeros(1, np.float32)},
        "lack": {name: array for name, array in good.items() if name != norm},
        "shape": {**good, norm: np.zeros(3, np.float32)},
    }
    for message, weights in bad.items():
        with pytest.raises(ValueError, match=message):
            ready.call(vllm_process.load, weights, 1)
    with pytest.raises(RuntimeError, match="in flight"):
        ready.call(vllm_process.load_while_busy, good)
    assert ask(ready, request) == before


def test_N1_non_finite_weights_fail_requests_and_the_engine_recovers(ready: VLLMProcess) -> None:
    requests = {key: (p, Sampling(10, STOPS, seed=key)) for key, p in enumerate(prompts(4))}
    before = ask(ready, requests)
    good = weights_of(make_model())
    ready.call(vllm_process.load, {name: array * np.float32(np.nan) for name, array in good.items()}, 1)
    for failure in ready.call(vllm_process.ask, requests).values():
        assert isinstance(failure, EngineFailure) and "non-finite" in failure.error
    ready.call(vllm_process.load, good, 0)
    assert ask(ready, requests) == before


@pytest.mark.parametrize("tied", [True, False])
def test_S2_updated_weights_equal_a_fresh_engine_and_leave_no_stale_cache(
    process: VLLMProcess, folders: dict[str, Path], tied: bool
) -> None:
    process.folder = ""  # type: ignore[attr-defined]
    requests = {key: (p, Sampling(20, STOPS, seed=key)) for key, p in enumerate(prompts(6, low=100, high=200))}
    process.call(vllm_process.start, folders[f"{tied}0"])
    old = ask(process, requests)
    process.call(vllm_process.load, weights_of(make_model(1, tie_word_embeddings=tied)), 1)
    updated = ask(process, requests)
    process.call(vllm_process.load, weights_of(make_model(0, tie_word_embeddings=tied)), 2)
    back = ask(process, requests)
    process.call(vllm_process.start, folders[f"{tied}1"], version=1)
    assert ask(process, requests) == updated
    assert all(old[key].token_ids != updated[key].token_ids for key in requests)
    assert {key: (reply.token_ids, reply.logprobs) for key, reply in back.items()} == {
        key: (reply.token_ids, reply.logprobs) for key, reply in old.items()
    }
    assert {reply.policy_version for reply in back.values()} == {2}


def test_S2_ten_updates_in_a_row_leave_nothing_of_the_old_weights(ready: VLLMProcess) -> None:
    requests = {key: (p, Sampling(12, STOPS, seed=key)) for key, p in enumerate(prompts(6, low=100, high=200))}
    before = ask(ready, requests)
    for version in range(1, 11):
        model = make_model(version)
        ready.call(vllm_process.load, weights_of(model), version)
        for key, reply in ask(ready, requests).items():
            assert worst_gap(model, requests[key][0], reply) <= BOUND
            assert reply.policy_version == version and reply != before[key]
    ready.call(vllm_process.load, weights_of(make_model()), 0)
    assert ask(ready, requests) == before


def test_a_context_that_grew_is_not_computed_again(ready: VLLMProcess) -> None:
    prompt = prompts(1, low=200, high=201)[0]
    first = ask(ready, {0: (prompt, Sampling(30, ()))})[0]
    assert first.cached_tokens == 0
    longer = prompt + first.token_ids + prompts(1, seed=1)[0]
    assert ask(ready, {1: (longer, Sampling(5, ()))})[1].cached_tokens >= 200


def test_nothing_is_sampled_in_its_sleep(ready: VLLMProcess) -> None:
    request = {0: (prompts(1)[0], Sampling(10, STOPS, seed=0))}
    before = ask(ready, request)
    with pytest.raises(RuntimeError, match="asleep"):
        ready.call(vllm_process.sleep_and_ask, request)
    ready.call(vllm_process.wake)
    assert ask(ready, request) == before


def test_a_cache_for_two_contexts_serves_many_requests(process: VLLMProcess, folders: dict[str, Path]) -> None:
    """Preempted requests are computed again: slower, and the same tokens."""
    process.folder = ""  # type: ignore[attr-defined]
    requests = {key: (p, Sampling(200, (), seed=key)) for key, p in enumerate(prompts(16, low=100, high=250))}
    process.call(vllm_process.start, folders["True0"])
    roomy = ask(process, requests)
    block_bytes = 2 * 2 * 2 * 32 * 4 * 32
    process.call(vllm_process.start, folders["True0"], kv_cache_bytes=2 * 17 * block_bytes)
    replies, preemptions = process.call(vllm_process.ask_and_count_preemptions, requests)
    assert preemptions > 0
    # Tokens: the log-probs' last bits depend on which requests met in a batch.
    tokens = {key: reply.token_ids for key, reply in replies.items() if isinstance(reply, Sampled)}
    assert tokens == {key: reply.token_ids for key, reply in roomy.items()}


@pytest.mark.parametrize("apart", [{"separate_process": True}, {"distributed_executor_backend": "mp"}])
def test_S2_an_engine_in_other_processes_keeps_the_same_promises(
    process: VLLMProcess, folders: dict[str, Path], apart: dict[str, Any]
) -> None:
    process.folder = ""  # type: ignore[attr-defined]
    requests = {key: (p, Sampling(20, STOPS, seed=key)) for key, p in enumerate(prompts(6))}
    process.call(vllm_process.start, folders["True1"])
    wanted = ask(process, requests)
    process.call(vllm_process.start, folders["True0"], **apart)
    assert ask(process, requests) != wanted
    process.call(vllm_process.load, weights_of(make_model(1)), 1)
    assert ask(process, requests) == {k: replace(r, policy_version=1) for k, r in wanted.items()}


@pytest.mark.parametrize("apart", [{}, {"separate_process": True}, {"distributed_executor_backend": "mp"}])
def test_S2_weights_arrive_through_a_process_group(
    process: VLLMProcess, folders: dict[str, Path], apart: dict[str, Any]
) -> None:
    process.folder = ""  # type: ignore[attr-defined]
    requests = {key: (p, Sampling(20, STOPS, seed=key)) for key, p in enumerate(prompts(6))}
    process.call(vllm_process.start, folders["True1"])
    wanted = ask(process, requests)
    process.call(vllm_process.start, folders["True0"], **apart)
    sender = Sender("127.0.0.1", 2, "gloo", 60, torch.device("cpu"))
    joined = process.begin(vllm_process.join, sender.meeting)
    for version, seed in ((1, 2), (2, 1)):
        weights = {name: tensor.detach() for name, tensor in make_model(seed).named_parameters()}
        received = process.begin(vllm_process.receive, specs_of(weights), version)
        sender.send(weights)
        joined.result()
        received.result()
    assert ask(process, requests) == {k: replace(r, policy_version=2) for k, r in wanted.items()}
    short = specs_of(weights)[1:]
    with pytest.raises(ValueError, match="lack"):
        process.call(vllm_process.receive, short, 3)


def make_env() -> TextEnv:
    return make_text_env("sokoban", limits={"prompt_style": "brief"})


def test_replaying_the_embedded_models_trajectories_gives_vllms_logprobs(process: VLLMProcess) -> None:
    process.folder = ""  # type: ignore[attr-defined]
    process.call(vllm_process.start, TINY, max_context=1024)
    trajectories = process.call(vllm_process.play, TINY, make_env, 24)
    model = AutoModelForCausalLM.from_pretrained(TINY)
    gaps = []
    for trajectory in trajectories:
        assert not trajectory.stop_reason.failed
        ids = trajectory.token_ids()
        logprobs = logits_of(model, ids.tolist())[:-1].log_softmax(-1)
        chosen = logprobs.gather(1, torch.tensor(ids[1:, None].astype(np.int64)))[:, 0].numpy()
        gaps.append(np.abs(chosen - trajectory.behaviour_logprobs()[1:])[trajectory.turn_index()[1:] >= 0])
    gap = np.concatenate(gaps)
    print(f"|log-prob difference| over {len(gap)} tokens: max {gap.max():.1e}, mean {gap.mean():.1e}")
    assert gap.max() <= 1e-4 and gap.mean() <= 1e-6
    assert any(trajectory.success for trajectory in trajectories)
    assert rollout_statistics(trajectories)["prefix_hit_rate"] > 0.3


def test_bfloat16_runs_and_stays_close(process: VLLMProcess, folders: dict[str, Path]) -> None:
    process.folder = ""  # type: ignore[attr-defined]
    process.call(vllm_process.start, folders["True0"], dtype="bfloat16")
    requests = {key: (p, Sampling(20, STOPS, seed=key)) for key, p in enumerate(prompts(8))}
    for key, reply in ask(process, requests).items():
        assert worst_gap(make_model(), requests[key][0], reply) <= 0.1


def test_a_dead_engine_says_so(process: VLLMProcess, folders: dict[str, Path]) -> None:
    process.folder = ""  # type: ignore[attr-defined]
    process.call(vllm_process.start, folders["True0"])
    with pytest.raises(EngineDead):
        process.call(vllm_process.break_and_ask)
