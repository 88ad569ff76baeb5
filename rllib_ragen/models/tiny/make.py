"""Makes the embedded model: `python -m rllib_ragen.models.tiny.make --out FOLDER`.

Supervised training on solver demonstrations (teacher.py) of four tasks, with and without thoughts. Of Sokoban only
plans of a few moves are shown: what needs longer ones is left to reinforcement. Takes some ten minutes on a core.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from rllib_ragen.models.tiny.demonstrations import Recipe, Sample, as_text, conversations, make_samples
from rllib_ragen.models.tiny.teacher import Lesson
from rllib_ragen.models.tiny.tokenizer import train_tokenizer

VOCAB_SIZE = 512
"""Tokens of the vocabulary: all that prompts and replies of the tasks say fits."""
_HEAD_SIZE = 32
"""Size of an attention head: the smallest that vLLM's CPU attention serves."""
_WARMUP_STEPS = 50
"""Steps over which the learning rate rises."""
_LOG_EVERY = 50
"""Steps between two lines of progress."""


@dataclass(frozen=True)
class Phase:
    """One phase of supervised training."""

    name: str
    recipes: tuple[Recipe, ...]
    learning_rate: float
    batch_size: int = 32


MAX_PLAN = 5
"""Moves of the longest Sokoban plan that is demonstrated."""


def recipes(scale: float) -> tuple[Recipe, ...]:
    """Says what is demonstrated; `scale` multiplies the number of episodes."""
    short: tuple[tuple[str, Any], ...] = (("max_solution_steps", MAX_PLAN),)
    certain: tuple[tuple[str, Any], ...] = (("success_rate", 1.0),)
    answer_only: tuple[tuple[str, Any], ...] = (("think", False),)
    long: tuple[tuple[str, Any], ...] = (("max_actions", 20),)
    sokoban, plain, lake = Lesson(wander_rate=0.3, max_plan=MAX_PLAN), Lesson(), Lesson(wander_rate=0.05)
    kinds: list[tuple[str, int, Lesson, tuple[tuple[str, Any], ...], tuple[tuple[str, Any], ...]]] = [
        ("sokoban", 26_000, sokoban, short, long),
        ("sokoban", 5_000, sokoban, short, (*long, *answer_only)),
        ("frozen_lake", 4_000, lake, (), ()),
        ("frozen_lake", 1_500, lake, certain, ()),
        ("frozen_lake", 1_500, lake, (), answer_only),
        ("bandit", 2_000, plain, (), ()),
        ("bandit", 500, plain, (), answer_only),
        ("bandit", 500, plain, (("reversed", True),), ()),
        ("countdown", 3_000, plain, (), ()),
        ("countdown", 1_500, plain, (), answer_only),
    ]
    return tuple(
        Recipe(env, max(1, int(count * scale)), lesson, task, limits, number)
        for number, (env, count, lesson, task, limits) in enumerate(kinds)
    )


def build_model(
    tokenizer: PreTrainedTokenizerFast,
    seed: int,
    *,
    num_heads: int = 4,
    num_layers: int = 4,
    intermediate_size: int = 256,
    max_length: int = 2_048,
) -> LlamaForCausalLM:
    """Returns a small Llama, by default of 0.6M parameters.

    One KV head, because KV heads are what decoding costs on a CPU; head size 32, the smallest that vLLM's CPU attention
    serves.
    """
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=math.ceil(len(tokenizer) / 16) * 16,
        hidden_size=_HEAD_SIZE * num_heads,
        intermediate_size=intermediate_size,
        num_hidden_layers=num_layers,
        num_attention_heads=num_heads,
        num_key_value_heads=1,
        max_position_embeddings=max_length,
        tie_word_embeddings=True,
        initializer_range=0.05,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return LlamaForCausalLM(config)


def batches(samples: list[Sample], batch_size: int, rng: np.random.Generator) -> list[list[Sample]]:
    """Returns one epoch in batches of similar length, in random order."""
    order = rng.permutation(len(samples))
    pools = [order[i : i + 8 * batch_size] for i in range(0, len(order), 8 * batch_size)]
    chunks = []
    for pool in pools:
        by_length = sorted(pool, key=lambda i: len(samples[i].token_ids))
        chunks += [by_length[i : i + batch_size] for i in range(0, len(by_length), batch_size)]
    return [[samples[i] for i in chunks[j]] for j in rng.permutation(len(chunks))]


def loss_of(model: LlamaForCausalLM, batch: list[Sample]) -> torch.Tensor:
    """Returns mean cross-entropy of the replies' tokens. Right-padded: causal attention needs no mask then."""
    length = max(len(sample.token_ids) for sample in batch)
    ids = torch.zeros(len(batch), length, dtype=torch.long)
    trained = torch.zeros(len(batch), length, dtype=torch.bool)
    for row, sample in enumerate(batch):
        ids[row, : len(sample.token_ids)] = torch.from_numpy(sample.token_ids)
        trained[row, : len(sample.token_ids)] = torch.from_numpy(sample.trained)
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1][trained[:, 1:]]
    return F.cross_entropy(model.lm_head(hidden), ids[:, 1:][trained[:, 1:]])


def train(model: LlamaForCausalLM, samples: list[Sample], phase: Phase, seed: int) -> dict[str, float]:
    """Returns one epoch of AdamW with warm-up and cosine decay; returns what it cost and reached."""
    plan = batches(samples, phase.batch_size, np.random.default_rng(seed))
    optimizer = torch.optim.AdamW(model.parameters(), lr=phase.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    warmup = min(_WARMUP_STEPS, len(plan) // 4 + 1)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min(1, (step + 1) / warmup) * (0.05 + 0.475 * (1 + math.cos(math.pi * step / len(plan)))),
    )
    model.train()
    started, tokens, recent = time.perf_counter(), 0, [0.0]
    for step, batch in enumerate(plan, start=1):
        loss = loss_of(model, batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        tokens += sum(len(sample.token_ids) for sample in batch)
        recent = [*recent[-_LOG_EVERY + 1 :], loss.item()]
        if step % _LOG_EVERY == 0 or step == len(plan):
            spent = time.perf_counter() - started
            print(
                f"{phase.name} {step}/{len(plan)} loss {np.mean(recent):.4f} {tokens / spent:,.0f} tokens/s "
                f"{spent:.0f} s, left {spent / step * (len(plan) - step):.0f} s",
                flush=True,
            )
    spent = time.perf_counter() - started
    return {"steps": len(plan), "tokens": tokens, "loss": float(np.mean(recent)), "seconds": spent}


def make(out: Path, scale: float, seed: int, workers: int) -> None:
    """Makes tokenizer and model and saves them as a plain transformers folder, with made.json beside them.

    Args:
        out: folder to write.
        scale: factor on the number of demonstrations.
        seed: of initialisation and of the order of batches.
        workers: processes that make demonstrations.
    """
    taught = recipes(scale)
    texts = [as_text(messages) for recipe in taught for messages in islice(conversations(recipe), 200)]
    tokenizer = train_tokenizer(texts, VOCAB_SIZE)
    model = build_model(tokenizer, seed)
    samples = make_samples(taught, tokenizer, workers)
    print(f"{len(samples)} demonstrations", flush=True)
    made: dict[str, object] = {"scale": scale, "seed": seed, "max_plan": MAX_PLAN, "demonstrations": len(samples)}
    made |= {
        "commit": _commit(),
        "threads": torch.get_num_threads(),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__, "numpy": np.__version__},
        "taught": [
            {"env": r.env, "think": dict(r.limits).get("think", True), "task": dict(r.task), "episodes": r.count}
            for r in taught
        ],
    }
    made |= train(model, samples, Phase("skill", taught, 2e-3, 16), seed)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    (out / "made.json").write_text(json.dumps(made, indent=2) + "\n")
    print(f"saved to {out} ({sum(p.numel() for p in model.parameters()):,} parameters)")


def _commit() -> str:
    """Names the commit of the source, with a + where something in it is not committed; empty outside of git."""
    where = Path(__file__).parent
    found = subprocess.run(
        ["git", "describe", "--always", "--abbrev=40", "--dirty=+"],
        capture_output=True,
        text=True,
        cwd=where,
        check=False,
    )
    return found.stdout.strip()


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the number of demonstrations")
    parser.add_argument("--seed", type=int, default=0, help="of initialisation and batch order")
    parser.add_argument("--workers", type=int, default=2, help="processes that make demonstrations")
    parser.add_argument("--threads", type=int, default=2, help="torch threads")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    make(args.out, args.scale, args.seed, args.workers)


if __name__ == "__main__":
    main()
