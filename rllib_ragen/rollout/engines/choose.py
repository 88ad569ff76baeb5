"""Choice of the engine, with the reason in one sentence. Imports nothing heavy: it is made before a run starts."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from rllib_ragen.models.folder import language_config

EngineName = Literal["hf", "vllm"]

VLLM_CPU_HEAD_SIZES = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)
"""Head sizes that vLLM's CPU attention supports, in version 0.32."""


@dataclass(frozen=True)
class EngineChoice:
    """The chosen engine, and a sentence with the reason."""

    name: EngineName
    why: str


def vllm_installed() -> bool:
    """Returns whether `import vllm` would find the package."""
    return find_spec("vllm") is not None


def choose_engine(
    asked: Literal["auto", "hf", "vllm"],
    *,
    num_env_runners: int,
    model_path: str | Path,
    on_gpu: bool = False,
    installed: bool | None = None,
    num_policies: int = 1,
) -> EngineChoice:
    """Chooses the engine: the one asked for, or with `auto` vLLM if it is installed, has its own process and supports
    the model.

    Several policies in one runner have an engine each. On a CPU `auto` takes hf for them: a vLLM engine there takes
    more than a GB for any model.

    Args:
        asked: the config's `rollout.engine`.
        num_env_runners: 0: sampling is in the driver's process, where vLLM is not allowed.
        model_path: folder of the model; its config.json is read.
        on_gpu: whether runners have a GPU.
        installed: whether vLLM is installed; default: looked up.
        num_policies: policies per env runner.

    Raises:
        ValueError: vLLM is asked for and cannot be used, or an unknown engine is asked for.
    """
    if asked == "hf":
        return EngineChoice("hf", "Engine hf, as asked.")
    if asked not in ("auto", "vllm"):
        raise ValueError(f"unknown rollout.engine {asked!r}; allowed: auto, hf, vllm")
    obstacle = _obstacle(
        num_env_runners, Path(model_path), on_gpu, vllm_installed() if installed is None else installed
    )
    if asked == "vllm":
        if obstacle:
            raise ValueError(f"rollout.engine is vllm, but {obstacle}")
        return EngineChoice("vllm", "Engine vllm, as asked.")
    if not obstacle and num_policies > 1 and not on_gpu:
        obstacle = f"{num_policies} policies would each need a vLLM engine of a GB and more (allowed: vllm)"
    if obstacle:
        return EngineChoice("hf", f"Engine hf (auto), because {obstacle}.")
    return EngineChoice(
        "vllm", "Engine vllm (auto): it is installed, can serve the model and has processes of its own."
    )


def _obstacle(num_env_runners: int, model_path: Path, on_gpu: bool, installed: bool) -> str:
    """Returns why vLLM cannot be used; empty if it can."""
    if not installed:
        return "vLLM is not installed (GPU: pip install 'rllib_ragen[vllm]'; CPU: requirements/cpu.txt)"
    if num_env_runners < 1:
        return "vLLM needs a process of its own (rollout.num_env_runners ≥ 1)"
    size = _head_size(model_path)
    if not on_gpu and size is not None and size not in VLLM_CPU_HEAD_SIZES:
        allowed = ", ".join(map(str, VLLM_CPU_HEAD_SIZES))
        return f"vLLM's CPU attention has no head size {size} (it has {allowed})"
    return ""


def _head_size(model_path: Path) -> int | None:
    """Returns the head size in a model folder's config.json, or None."""
    if not (model_path / "config.json").is_file():
        raise ValueError(f"model folder {str(model_path)!r} has no config.json")
    config = language_config(model_path)
    if config.get("head_dim"):
        return int(config["head_dim"])
    hidden, heads = config.get("hidden_size"), config.get("num_attention_heads")
    return int(hidden) // int(heads) if hidden and heads else None
