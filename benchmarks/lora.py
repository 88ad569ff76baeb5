"""What adapters save against training all weights: trained parameters, bytes on disk, seconds per update.

    python -m benchmarks.lora --out lora.json

Learners on the same rows, in one process, by turns: all weights, and adapters of some ranks in all linear layers but
the head. `update` is a whole update of one optimiser step; `weights` is making what samplers get (with adapters: the
merged model). Seconds are CPU seconds of one thread. A checkpoint holds weights and Adam's moments, but no tokenizer.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.learner_speed import TINY, by_turns, make_rows, write_smol
from rllib_ragen.learner.learner import StarPOLearner
from rllib_ragen.learner.training_data import TokenTrainingData
from rllib_ragen.models.lora_settings import lora_settings
from rllib_ragen.starpo.checkpoint.save import save_checkpoint
from rllib_ragen.starpo.config import StarPOConfig
from rllib_ragen.types import TokenRow


def make(folder: Path, rank: int | None, microbatch_tokens: int) -> StarPOLearner:
    """Makes a learner that trains adapters of that rank; None: all weights."""
    config = StarPOConfig().environment("sokoban").llm(model=str(folder)).training(lora_rank=rank)
    config.training(microbatch_tokens=microbatch_tokens, torch_threads=1, normalize="none").validate()
    learner: StarPOLearner = config.build_learner()
    return learner


def bytes_saved(learner: StarPOLearner, source: Path) -> int:
    """Returns the size of a checkpoint's safetensors files in bytes."""
    lora = lora_settings(learner.config.learner_section())
    with tempfile.TemporaryDirectory() as folder:
        state = learner.get_state(not_components="metrics_logger")
        save_checkpoint(Path(folder), state, {}, {}, source, lora=lora)
        return sum(path.stat().st_size for path in Path(folder).rglob("*.safetensors"))


def compare(
    label: str, folder: Path, rows: list[TokenRow], ranks: list[int], repeats: int, budget: int
) -> dict[str, Any]:
    """Compares all weights with adapters on one model."""
    learners = {"all" if rank is None else f"rank {rank}": make(folder, rank, budget) for rank in [None, *ranks]}
    plan = TokenTrainingData.plan(rows, num_minibatches=1, num_epochs=1, rng=np.random.default_rng(0))

    def update(learner: StarPOLearner) -> Callable[[], object]:
        return lambda: learner.update(training_data=plan)

    def weights(learner: StarPOLearner) -> Callable[[], object]:
        return lambda: learner.module["default_policy"].tensors(inference_only=True)

    before = os.getloadavg()[0]
    updates = by_turns({name: update(learner) for name, learner in learners.items()}, repeats)
    merges = by_turns({name: weights(learner) for name, learner in learners.items()}, repeats)
    return {
        "model": label,
        "tokens": sum(row.num_tokens for row in rows),
        "repeats": repeats,
        "load": [before, os.getloadavg()[0]],
        "ways": {
            name: {
                "trained_parameters": sum(
                    p.numel() for p in learner.module["default_policy"].parameters() if p.requires_grad
                ),
                "checkpoint_bytes": bytes_saved(learner, folder),
                "update_cpu_s": statistics.median(updates[name]["cpu"]),
                "update_to_all": statistics.median(
                    own / full for own, full in zip(updates[name]["cpu"], updates["all"]["cpu"], strict=True)
                ),
                "weights_cpu_s": statistics.median(merges[name]["cpu"]),
            }
            for name, learner in learners.items()
        },
    }


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--ranks", type=int, nargs="+", default=[4, 16], help="ranks of the adapters")
    parser.add_argument("--repeats", type=int, default=7, help="rounds on the embedded model; the median counts")
    parser.add_argument("--large-repeats", type=int, default=3, help="rounds on the 135M-shaped model; 0: leave it out")
    parser.add_argument("--out", type=Path, help="JSON file")
    args = parser.parse_args()
    torch.set_num_threads(1)
    results = [compare("tiny", TINY, make_rows(96, 200, 500, 528), args.ranks, args.repeats, 8192)]
    if args.large_repeats:
        with tempfile.TemporaryDirectory() as folder:
            rows, smol = make_rows(2, 250, 300, 49152), write_smol(Path(folder))
            results.append(compare("135M", smol, rows, args.ranks, args.large_repeats, 600))
    print(json.dumps(results, indent=2))
    if args.out:
        args.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
