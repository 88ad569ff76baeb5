"""`run --dry-run`: the config, checked as a run checks it, and what the run would need; nothing is started."""

from __future__ import annotations

from types import SimpleNamespace

from rllib_ragen.config.hub_models import HUB_MODELS, SMOLLM2_ON_THE_HUB
from rllib_ragen.config.paths import SMOLLM2
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.models.folder import model_folder
from rllib_ragen.models.shape import ModelShape
from rllib_ragen.models.tiny.run_model import run_model_folder
from rllib_ragen.run.estimate import GIB, Cost, Process, cost, memory
from rllib_ragen.run.preflight import preflight
from rllib_ragen.run.several import find_scales, task_lines
from rllib_ragen.run.trackers.registry import check_trackers

_MILLION = 1e6
"""Unit that counts of weights are told in."""


def dry_run(config: RunConfig) -> str:
    """Returns what the run would be and need, in lines. Reads the model's files if they are here, and no weight.

    Raises:
        ConfigError: the run would be refused.
    """
    check_trackers(config.trackers)
    known = SMOLLM2_ON_THE_HUB if config.model.path == SMOLLM2 else config.model.path
    if known in HUB_MODELS and not model_folder(config.model.path).is_dir():
        shape = ModelShape.of(SimpleNamespace(**HUB_MODELS[known]))
        parameters, where = shape.parameters, "shape from a table; it is not on this machine, its files are not checked"
        engine = f"{config.rollout.engine}, decided when the model is here"
    else:
        engine = preflight(config, writes=False).why
        shape, parameters = _of_folder(config)
        where = "shape and number of weights from its files"
    from rllib_ragen.models.token_scores import CHUNK_ELEMENTS

    processes = memory(config, shape, parameters, CHUNK_ELEMENTS)
    size = f"{parameters / _MILLION:.1f}M weights, {shape.layers} layers of width {shape.hidden}"
    lines = [
        "dry run     nothing is started; memory and cost are arithmetic from the config, not measurements",
        *(f"task        {line}" for line in task_lines(config, find_scales(config))),
        f"model       {config.model.path}: {size}, {shape.vocabulary} tokens; {where}",
        f"sampling    {engine}",
        *_memory_lines(processes),
        *_cost_lines(cost(config, shape, parameters), config),
    ]
    return "\n".join(lines)


def _of_folder(config: RunConfig) -> tuple[ModelShape, int]:
    from rllib_ragen.models.load import empty_model, load_config

    folder = run_model_folder(config)
    # The small model of a game is made when it is first needed, and is as large as the embedded one at most.
    read = load_config(folder if folder.is_dir() else model_folder(config.model.path))
    parameters = sum(weight.numel() for weight in empty_model(read).parameters())
    return ModelShape.of(read.get_text_config()), parameters


def _memory_lines(processes: list[Process]) -> list[str]:
    lines = []
    for process in processes:
        what = " + ".join(f"{name} {size / GIB:.2f}" for name, size in process.parts.items())
        place = f"on {'its GPU' if process.gpus <= 1 else 'each of its GPUs'}" if process.gpus else "of its process"
        share = f", {process.gpus:g} GPU each" if process.gpus else ""
        lines.append(
            f"memory      {process.count} {process.name}{share}: {process.total / GIB:.2f} GiB {place} = {what}"
        )
    shares = [process for process in processes if process.gpus]
    if len(shares) == len(processes) and sum(process.gpus * process.count for process in shares) <= 1:
        total = sum(process.total * process.count for process in shares)
        lines.append(f"memory      all on one GPU: {total / GIB:.2f} GiB")
    return [*lines, "            not counted: CUDA's own, fragments, what vLLM reserves beyond its needs"]


def _cost_lines(found: Cost, config: RunConfig) -> list[str]:
    flops = found.sampling_flops + found.update_flops
    return [
        f"cost        an iteration, at most: {found.trajectories:,} trajectories, {found.sampled_tokens:,} tokens"
        f" sampled, {found.trained_tokens:,} trained",
        f"            {flops:.2g} FLOPs: sampling {found.sampling_flops:.2g}, update {found.update_flops:.2g}",
        f"            all {config.iterations:,} iterations: {found.sampled_tokens * config.iterations:,} tokens"
        f" sampled, {flops * config.iterations:.2g} FLOPs, without validation and test",
    ]
