"""Faults T1-T5: what is trained is what was sampled, on every chat template, and the sampler's log-probs come back."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

import rllib_ragen.models.tiny
from ragen_envs.registry import make_text_env
from ragen_envs.text import TextEnv
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.rollout.collect import collect
from rllib_ragen.rollout.context import Context
from rllib_ragen.rollout.engines.base import EngineFailure
from rllib_ragen.rollout.engines.hf import HFEngine
from rllib_ragen.rollout.specs import EpisodeSpec
from rllib_ragen.types import Sampled, Sampling, Trajectory
from tests.rollout.build import make_model, plain_copy, reply_logprobs
from tests.rollout.families import NAMES, tokenizer_of

BOUND = 1e-5
TINY = Path(rllib_ragen.models.tiny.__file__).parent / "checkpoint"


class Recorder(HFEngine):
    """The real engine, which also remembers what went in and out."""

    def __init__(self, vocab_size: int) -> None:
        model = make_model(vocab_size=vocab_size)
        self.twin = plain_copy(model)
        super().__init__(model, max_context=2048)
        self.prompts: dict[int, list[list[int]]] = {}
        self.replies: dict[int, list[Sampled]] = {}

    def add(self, key: int, prompt_ids: list[int], sampling: Sampling) -> None:  # type: ignore[override]
        self.prompts.setdefault(key, []).append(list(prompt_ids))
        super().add(key, prompt_ids, sampling)

    def poll(self) -> list[tuple[int, Sampled | EngineFailure]]:
        results = super().poll()
        for key, reply in results:
            assert isinstance(reply, Sampled)
            self.replies.setdefault(key, []).append(reply)
        return results


def make_env() -> TextEnv:
    return make_text_env("sokoban", limits={"max_turns": 4, "prompt_style": "brief"})


def make_likely(model: PreTrainedModel, token: int, logit: float) -> None:
    """Adds to the logit of `token`: a random model would hardly ever stop."""
    bias = torch.zeros(model.config.vocab_size)
    bias[token] = logit
    model.get_output_embeddings().bias = torch.nn.Parameter(bias)


@cache
def rollout(name: str, reply_prefix: str = "") -> tuple[ChatFormat, Recorder, list[Trajectory]]:
    """Six episodes of a random model; about half of its replies are cut."""
    chat = ChatFormat(tokenizer_of(name), reply_prefix=reply_prefix)
    engine = Recorder(vocab_size=max(len(chat.tokenizer), 400))
    for model in (engine.model, engine.twin):
        make_likely(model, chat.stop_token_ids[0], logit=3.0)
    specs = [EpisodeSpec(f"g{i // 2}", i // 2, i, sampling_seed=i) for i in range(6)]
    sampling = Sampling(24, chat.stop_token_ids)
    return (
        chat,
        engine,
        collect(specs, engine=engine, chat=chat, make_env=make_env, sampling=sampling, max_context_tokens=2048),
    )


@pytest.mark.parametrize("name", NAMES)
def test_T1_trained_ids_are_the_sampled_ids(name: str) -> None:
    chat, engine, trajectories = rollout(name)
    changed_by_retokenising = 0
    for key, trajectory in enumerate(trajectories):
        for turn, sampled in zip(trajectory.turns, engine.replies[key], strict=True):
            assert turn.reply_ids.tolist() == sampled.token_ids
            assert turn.logprobs.tolist() == pytest.approx(sampled.logprobs)
            again = chat.tokenizer.encode(chat.tokenizer.decode(sampled.token_ids), add_special_tokens=False)
            changed_by_retokenising += again != sampled.token_ids
    assert changed_by_retokenising > 0, "the trap was not there, so the test shows nothing"


@pytest.mark.parametrize("name", NAMES)
def test_T2_every_prompt_is_a_prefix_of_the_next(name: str) -> None:
    _, engine, trajectories = rollout(name)
    for key, trajectory in enumerate(trajectories):
        stream = trajectory.token_ids().tolist()
        assert len(engine.prompts[key]) == len(trajectory.turns) == 4
        for prompt, reply in zip(engine.prompts[key], engine.replies[key], strict=True):
            assert stream[: len(prompt) + len(reply.token_ids)] == prompt + reply.token_ids


@pytest.mark.vllm
def test_T2_a_template_that_drops_thoughts_of_earlier_turns_cannot_drop_them_here() -> None:
    chat = ChatFormat(tokenizer_of("minicpm_thinking"))
    thought = "<think>The box is left of me.</think><answer>Left</answer>"
    context = Context(chat)
    context.first("", "Turn 1")
    ids = [*chat.tokenizer.encode(thought, add_special_tokens=False), chat.end_of_turn_id or 0]
    context.reply(Sampled(ids, [-1.0] * len(ids), True, 0))
    context.next("Turn 2")
    roles = [("user", "Turn 1"), ("assistant", thought), ("user", "Turn 2")]
    messages = [{"role": role, "content": content} for role, content in roles]
    assert thought not in str(chat.tokenizer.apply_chat_template(messages, tokenize=False)), "the trap is gone"
    assert thought in str(chat.tokenizer.decode(context.token_ids))


@pytest.mark.parametrize("name", NAMES)
def test_T3_no_token_merges_over_the_seam(name: str) -> None:
    tokenizer = tokenizer_of(name)
    chat = ChatFormat(tokenizer)
    merged = 0
    for ending in ("Up", " ", "\n", "t", "\n\n", " Quest", "</answer>"):
        ids = tokenizer.encode(f"go{ending}", add_special_tokens=False)
        context = Context(chat)
        context.first("", "Hi")
        before = len(context.token_ids)
        context.reply(Sampled(ids, [-1.0] * len(ids), False, 0))
        context.next("ion: next")
        assert context.token_ids[before : before + len(ids)] == ids
        delta = context.token_ids[before + len(ids) :]
        assert delta == chat.next_prompt("ion: next", finished=False)
        whole = tokenizer.encode(tokenizer.decode([*ids, *delta]), add_special_tokens=False)
        merged += whole != [*ids, *delta]
    if name == "no_markup":
        assert merged > 0, "the trap was not there, so the test shows nothing"


@pytest.mark.parametrize("name", NAMES)
def test_T4_only_sampled_tokens_are_trained(name: str) -> None:
    chat, engine, trajectories = rollout(name, reply_prefix="<think>")
    for key, trajectory in enumerate(trajectories):
        mask = trajectory.turn_index() >= 0
        sampled = [token for reply in engine.replies[key] for token in reply.token_ids]
        assert trajectory.token_ids()[mask].tolist() == sampled
        for turn in trajectory.turns:
            assert str(chat.tokenizer.decode(turn.prompt_ids.tolist())).endswith("<think>")
        ends = sum(reply.token_ids[-1] == chat.end_of_turn_id for reply in engine.replies[key])
        assert (trajectory.token_ids()[mask] == (chat.end_of_turn_id or -1)).sum() == ends
        assert all(turn.reply.startswith("<think>") for turn in trajectory.turns)


@pytest.mark.parametrize("name", NAMES)
def test_T5_a_cut_reply_is_trained_whole_and_closed_by_the_prompt(name: str) -> None:
    chat, _, trajectories = rollout(name)
    cut = finished = 0
    for trajectory in trajectories:
        mask = trajectory.turn_index() >= 0
        logprobs = trajectory.behaviour_logprobs()
        assert mask.sum() == trajectory.num_reply_tokens == sum(len(turn.logprobs) for turn in trajectory.turns)
        assert (logprobs[mask] < 0).all() and (logprobs[~mask] == 0).all()
        for turn, following in zip(trajectory.turns, trajectory.turns[1:], strict=False):
            is_cut = turn.reply_ids[-1] not in chat.stop_token_ids
            cut, finished = cut + is_cut, finished + (not is_cut)
            if chat.end_of_turn_id is not None:
                own_end = turn.reply_ids[-1] == chat.end_of_turn_id
                assert (following.prompt_ids[0] == chat.end_of_turn_id) == (not own_end)
    assert cut > 0 and finished > 0


@pytest.mark.parametrize("name", NAMES)
def test_replaying_a_trajectory_gives_the_samplers_logprobs(name: str) -> None:
    _, engine, trajectories = rollout(name)
    for trajectory in trajectories:
        ids = torch.tensor(trajectory.token_ids()[None].astype(np.int64))
        with torch.no_grad():
            logprobs = engine.twin(ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0].numpy()
        mask = trajectory.turn_index()[1:] >= 0
        assert np.abs(logprobs - trajectory.behaviour_logprobs()[1:])[mask].max() <= BOUND


def test_on_the_embedded_model_the_sampler_is_as_exact_as_float32_is() -> None:
    """Its rare tokens' log-probs are beyond 1e-5 even for transformers' own forward; float64 is the judge of both."""
    model, plain = (AutoModelForCausalLM.from_pretrained(TINY) for _ in range(2))
    exact = AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float64)
    chat = ChatFormat.from_folder(TINY)
    trajectories = collect(
        [EpisodeSpec(f"g{i}", i, i, i) for i in range(24)],
        engine=HFEngine(model, max_context=1024),
        chat=chat,
        make_env=make_env,
        sampling=Sampling(72, chat.stop_token_ids),
        max_context_tokens=1024,
    )
    gaps: dict[str, list[torch.Tensor]] = {"sampler": [], "plain": []}
    for trajectory in trajectories:
        ids = trajectory.token_ids().tolist()
        mask = torch.tensor(trajectory.turn_index()[1:] >= 0)
        wanted = reply_logprobs(exact, ids[:1], ids[1:])[mask]
        gaps["plain"].append((reply_logprobs(plain, ids[:1], ids[1:])[mask] - wanted).abs())
        gaps["sampler"].append((torch.tensor(trajectory.behaviour_logprobs()[1:])[mask] - wanted).abs())
    sampler, forward = torch.cat(gaps["sampler"]), torch.cat(gaps["plain"])
    assert sampler.mean() <= 1e-6 and sampler.mean() <= 2 * forward.mean()
    assert sampler.max() <= max(BOUND, 4 * float(forward.max()))
