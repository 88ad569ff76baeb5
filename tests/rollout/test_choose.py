"""Asked-for means used, and `auto` says why."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from transformers import LlamaConfig

from rllib_ragen.rollout.engines.choose import choose_engine, vllm_installed
from tests.patience import PATIENCE_S


def folder(tmp_path: Path, heads: int = 4) -> Path:
    """A model folder with a config: hidden size 128."""
    LlamaConfig(hidden_size=128, num_attention_heads=heads, num_key_value_heads=1).save_pretrained(tmp_path)
    return tmp_path


def test_auto_takes_vllm_only_where_nothing_is_in_its_way(tmp_path: Path) -> None:
    good: dict[str, Any] = {"num_env_runners": 2, "model_path": folder(tmp_path / "a"), "installed": True}
    assert choose_engine("auto", **good).name == "vllm"
    narrow = folder(tmp_path / "b", heads=8)
    obstacles: dict[str, dict[str, Any]] = {
        "not installed": {"installed": False},
        "process": {"num_env_runners": 0},
        "16": {"model_path": narrow},
    }
    for reason, change in obstacles.items():
        choice = choose_engine("auto", **(good | change))
        assert choice.name == "hf" and reason in choice.why
        with pytest.raises(ValueError, match=reason):
            choose_engine("vllm", **(good | change))
        assert choose_engine("hf", **(good | change)).name == "hf"
    assert choose_engine("auto", **(good | {"model_path": narrow}), on_gpu=True).name == "vllm"


def test_several_policies_get_vllm_on_a_gpu_or_when_asked_for(tmp_path: Path) -> None:
    several: dict[str, Any] = {
        "num_env_runners": 1,
        "model_path": folder(tmp_path),
        "installed": True,
        "num_policies": 5,
    }
    choice = choose_engine("auto", **several)
    assert choice.name == "hf" and "5 policies would each need a vLLM engine" in choice.why
    assert choose_engine("vllm", **several).name == choose_engine("auto", **several, on_gpu=True).name == "vllm"


def test_an_unknown_engine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="allowed: auto, hf, vllm"):
        choose_engine("vlm", num_env_runners=1, model_path=tmp_path)  # type: ignore[arg-type]


def test_choosing_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from rllib_ragen.rollout.engines.choose import choose_engine\n"
        f"print(choose_engine('auto', num_env_runners=1, model_path={str(folder(tmp_path))!r}).why)\n"
        "heavy = {'torch', 'transformers', 'vllm', 'ray'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S)
    assert answer.returncode == 0, answer.stderr
    assert ("Engine vllm" in answer.stdout) == vllm_installed()
