"""The learner's tokens per second against plain torch on the same rows, in the same process, by turns.

    python -m benchmarks.learner_speed --out learner.json

Three ways take the same rows in the same padded micro-batches. `torch`: transformers' model as it comes, all logits,
cross-entropy of the trained tokens, forward and backward. `lean`: the same, with only the trained tokens' logits and
the learner's attention: what is left to gain by hand. `learner`: a whole update, with log-probs, entropies, the clipped
loss, gradient clipping, Adam's step and metrics. Seconds are CPU seconds of one thread, which other work on the machine
disturbs less than the clock; both are written. A ratio of speeds is the median over rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from rllib_ragen.learner.microbatches import MicroBatch, microbatches
from rllib_ragen.learner.training_data import TokenTrainingData
from rllib_ragen.models.attention import ATTENTION
from rllib_ragen.models.folder import model_folder
from rllib_ragen.starpo.config import StarPOConfig
from rllib_ragen.types import TokenRow

WAYS = ("torch", "lean", "learner")
TINY = model_folder("tiny")


def make_rows(count: int, low: int, high: int, vocabulary: int) -> list[TokenRow]:
    """Makes rows of `low` to `high` tokens in turns of 60 tokens, of which the last 30 were sampled."""
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(count):
        length = int(rng.integers(low, high + 1))
        mask = (np.arange(length) % 60 >= 30).astype(np.float32)
        advantages = (rng.normal() * mask).astype(np.float32)
        logprobs = (np.log(vocabulary) * -mask).astype(np.float32)
        zeros = np.zeros(length, np.float32)
        ids = rng.integers(3, vocabulary, length).astype(np.int32)
        rows.append(TokenRow(ids, mask, logprobs, advantages, zeros, zeros))
    return rows


def write_smol(folder: Path) -> Path:
    """Writes a random Llama of 135M parameters, of SmolLM2's shape, with the embedded model's tokenizer."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, max_position_embeddings=2048, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(TINY, trust_remote_code=False).save_pretrained(folder)
    return folder


def torch_pass(model: PreTrainedModel, batches: Sequence[MicroBatch], *, lean: bool) -> None:
    """Runs forward and backward over all micro-batches."""
    model.zero_grad(set_to_none=True)
    for batch in batches:
        states, targets = batch.trained[:, 1:], batch.input_ids[:, 1:][batch.trained[:, 1:]]
        if lean:
            hidden = model.base_model(input_ids=batch.input_ids, use_cache=False).last_hidden_state
            logits: Tensor = model.get_output_embeddings()(hidden[:, :-1][states])
        else:
            logits = model(input_ids=batch.input_ids, use_cache=False).logits[:, :-1][states]
        cross_entropy(logits, targets).backward()


def by_turns(passes: dict[str, Callable[[], object]], repeats: int) -> dict[str, dict[str, list[float]]]:
    """Measures {way: {"wall": seconds, "cpu": seconds}} of `repeats` rounds after one for warming up."""
    seconds: dict[str, dict[str, list[float]]] = {name: {"wall": [], "cpu": []} for name in passes}
    for turn in range(repeats + 1):
        for name, work in passes.items():
            wall, cpu = time.perf_counter(), time.process_time()
            work()
            if turn:
                seconds[name]["wall"].append(time.perf_counter() - wall)
                seconds[name]["cpu"].append(time.process_time() - cpu)
    return seconds


def speed(label: str, folder: Path, rows: list[TokenRow], repeats: int, microbatch_tokens: int) -> dict[str, Any]:
    """Measures the three ways on one model."""
    config = StarPOConfig().environment("sokoban").llm(model=str(folder))
    config.training(microbatch_tokens=microbatch_tokens, torch_threads=1, normalize="none")
    config.validate()
    learner = config.build_learner()
    batches = [batch for _, batch in microbatches(rows, [1.0] * len(rows), microbatch_tokens)]
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="sdpa", trust_remote_code=False).eval()
    lean = AutoModelForCausalLM.from_pretrained(folder, attn_implementation=ATTENTION, trust_remote_code=False).eval()

    def update() -> None:
        plan = TokenTrainingData.plan(rows, num_minibatches=1, num_epochs=1, rng=np.random.default_rng(0))
        learner.update(training_data=plan)

    passes: dict[str, Callable[[], object]] = {
        "torch": lambda: torch_pass(model, batches, lean=False),
        "lean": lambda: torch_pass(lean, batches, lean=True),
        "learner": update,
    }
    before = os.getloadavg()[0]
    seconds = by_turns(passes, repeats)
    tokens = sum(row.num_tokens for row in rows)
    ratios = {
        f"learner_to_{way}_{clock}": statistics.median(
            theirs / ours for ours, theirs in zip(seconds["learner"][clock], seconds[way][clock], strict=True)
        )
        for way in ("torch", "lean")
        for clock in ("cpu", "wall")
    }
    return {
        "model": label,
        "parameters": sum(p.numel() for p in model.parameters()),
        "rows": len(rows),
        "tokens": tokens,
        "trained_tokens": sum(row.num_trained_tokens for row in rows),
        "padded_tokens": sum(batch.input_ids.numel() for batch in batches),
        "repeats": repeats,
        "load_before": before,
        "load_after": os.getloadavg()[0],
        **{f"{way}_tokens_per_cpu_s": tokens / statistics.median(seconds[way]["cpu"]) for way in WAYS},
        **ratios,
    }


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=7, help="rounds on the embedded model; the median counts")
    parser.add_argument("--large-repeats", type=int, default=3, help="rounds on the 135M-shaped model; 0: leave it out")
    parser.add_argument("--out", type=Path, help="JSON file")
    args = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = {"speed": [speed("tiny", TINY, make_rows(96, 200, 500, 528), args.repeats, 8192)]}
    if args.large_repeats:
        with tempfile.TemporaryDirectory() as folder:
            rows = make_rows(2, 250, 300, 49152)
            results["speed"].append(speed("135M", write_smol(Path(folder)), rows, args.large_repeats, 600))
    print(json.dumps(results, indent=2))
    if args.out:
        args.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
