"""A policy to talk to, and its module on its own: what RLlib users would call `compute_single_action` for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from rllib_ragen.models.llm_module import LLMRLModule
from rllib_ragen.starpo.algorithm import StarPO
from tests.starpo.build import MODULE, digits_config, write_model
from tests.starpo.test_games import game_config

pytestmark = pytest.mark.usefixtures("local_ray")
SAMPLED: list[Any] = []


def note(*, samples: list[Any], **kwargs: Any) -> None:
    """Callback on_sample_end."""
    SAMPLED[:] = samples


@pytest.fixture(scope="module")
def algo(model: Path, local_ray: None) -> Iterator[StarPO]:
    """One that has learnt once."""
    built: StarPO = digits_config(model, lr=1e-2).callbacks(on_sample_end=note).build_algo()
    built.train()
    yield built
    built.stop()


def said(*texts: str, system: str = "") -> list[dict[str, str]]:
    """A conversation that a user begins."""
    told = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]
    return [{"role": "system", "content": system}, *told] if system else told


def test_a_reply_to_an_episodes_first_prompt_is_that_of_a_greedy_evaluation(algo: StarPO) -> None:
    algo.evaluate_split("val", 3, True)
    assert len(SAMPLED) == 3
    system = algo.env_runner._env_creator({}).system_prompt
    for episode in list(SAMPLED):
        first = episode.turns[0]
        assert algo.chat(said(first.prompt, system=system), greedy=True) == first.reply


def test_sampling_follows_the_seed_and_weights_the_updates(algo: StarPO) -> None:
    question = said("Number 12", "4", "Number 13", system="Say digits.")
    replies = [algo.chat(question, seed=seed) for seed in (0, 0, 1, 2)]
    assert replies[0] == replies[1] and len(set(replies)) > 1
    before = {seed: algo.chat(question, seed=seed) for seed in range(6)}
    algo.train()
    assert before != {seed: algo.chat(question, seed=seed) for seed in range(6)}


@pytest.mark.parametrize(
    ("messages", "more", "says"),
    [
        ([], {}, r"messages: a user's must be the last"),
        (said("one", "two"), {}, r"messages: a user's must be the last"),
        (
            [*said("one"), {"role": "system", "content": "x"}, *said("two")],
            {},
            r"a system message may only be the first",
        ),
        ([{"role": "tool", "content": "x"}], {}, r"'role' must be one of system, user, assistant"),
        ([{"role": "user", "text": "x"}], {}, r"each must have 'role' and 'content'"),
        (said("word " * 300), {}, r"messages: they are \d+ tokens; allowed: below max_context_tokens=256"),
        (said("hi"), {"policy": "nobody"}, r"policy: unknown 'nobody'; allowed: default_policy"),
        (said("hi"), {"seed": -1}, r"seed: -1 is out of range"),
    ],
)
def test_what_is_no_conversation_is_one_sentence(algo: StarPO, messages: Any, more: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        algo.chat(messages, **more)


def test_each_policy_of_a_game_has_a_voice(model: Path) -> None:
    algo = game_config(model, play_mode="per_role").build_algo()
    algo.train()
    voices = {
        name: [algo.chat(said("Your card: K"), name, seed=seed) for seed in range(4)] for name in algo.trained_ids
    }
    assert voices["player_0"] != voices["player_1"]
    assert voices["player_0"] == [algo.chat(said("Your card: K"), seed=seed) for seed in range(4)], "the main one"
    algo.stop()


def test_the_module_of_a_checkpoint_scores_and_generates_without_a_pickle(algo: StarPO, tmp_path: Path) -> None:
    algo.save_to_path(tmp_path)
    module = LLMRLModule.from_checkpoint(tmp_path / MODULE)
    own = algo.learner_group._learner.module[MODULE].llm.state_dict()
    assert all(torch.equal(own[name], weight) for name, weight in module.llm.state_dict().items())
    ids = torch.arange(5, 15)[None]
    batch = {"input_ids": ids, "trained": torch.arange(10)[None] > 4}
    expected = torch.log_softmax(module.llm(ids).logits[0, 4:9], -1).gather(1, ids[0, 5:, None])[:, 0]
    torch.testing.assert_close(module.forward_inference(batch)["logprobs"], expected, atol=1e-5, rtol=0)
    with pytest.raises(ValueError, match=r"a batch with 'obs': .* call algo\.chat\(messages\)"):
        module.forward_inference({"obs": ["Number 7"]})
    with pytest.raises(ValueError, match=r"holds no whole policy; .*StarPO\.from_checkpoint\(FOLDER\)"):
        LLMRLModule.from_checkpoint(tmp_path)
    with pytest.raises(ValueError, match=r"takes a path, a dtype"):
        LLMRLModule.from_checkpoint(tmp_path / MODULE, dtype="float8")  # type: ignore[arg-type]


def test_a_module_is_built_from_any_transformers_folder(tmp_path: Path) -> None:
    module = LLMRLModule.from_checkpoint(write_model(tmp_path / "plain"), dtype="bfloat16")
    assert module.llm.dtype == torch.bfloat16
