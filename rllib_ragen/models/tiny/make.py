"""Makes the embedded model: `python -m rllib_ragen.models.tiny.make --out FOLDER`.

Two phases of supervised training on solver demonstrations (teacher.py): *skill*, where the teacher nearly always plans,
then *habit*, short, where it guesses in most turns. What results can plan but mostly does not: the ability is latent,
as in a real base model, and it is for reinforcement to bring it out. Needs about half an hour on two cores.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from rllib_ragen.models.tiny.demonstrations import (
    TASK_SEED_STRIDE,
    Recipe,
    Sample,
    as_text,
    conversations,
    make_samples,
)
from rllib_ragen.models.tiny.tokenizer import train_tokenizer

VOCAB_SIZE = 512
_HEAD_SIZE = 32
_WARMUP_STEPS = 50
_LOG_EVERY = 50


@dataclass(frozen=True)
class Phase:
    """One phase of supervised training."""

    name: str
    recipes: tuple[Recipe, ...]
    learning_rate: float
    batch_size: int = 32


def phases(scale: float, guess_rate: float) -> tuple[Phase, Phase]:
    """Skill and habit; `scale` multiplies the number of demonstrations."""

    def count(n: int) -> int:
        return max(1, int(n * scale))

    certain = (("success_rate", 1.0),)
    skill = (
        Recipe("sokoban", count(24_000), 0.05),
        Recipe("frozen_lake", count(5_000), 0.05),
        Recipe("frozen_lake", count(2_000), 0.05, certain),
        Recipe("bandit", count(600), 0.5),
        Recipe("countdown", count(1_500), 0.05),
    )
    habit = (
        Recipe("sokoban", count(2_400), guess_rate),
        Recipe("frozen_lake", count(1_000), guess_rate),
        Recipe("bandit", count(150), guess_rate),
        Recipe("countdown", count(250), guess_rate),
    )
    return Phase("skill", skill, 2e-3), Phase("habit", habit, 6e-4)


def build_model(
    tokenizer: PreTrainedTokenizerFast,
    seed: int,
    *,
    num_heads: int = 4,
    num_layers: int = 4,
    intermediate_size: int = 256,
    max_length: int = 2_048,
) -> LlamaForCausalLM:
    """A small Llama, by default of 0.6M parameters.

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
    """One epoch in batches of similar length, in random order."""
    order = rng.permutation(len(samples))
    pools = [order[i : i + 8 * batch_size] for i in range(0, len(order), 8 * batch_size)]
    chunks = []
    for pool in pools:
        by_length = sorted(pool, key=lambda i: len(samples[i].token_ids))
        chunks += [by_length[i : i + batch_size] for i in range(0, len(by_length), batch_size)]
    return [[samples[i] for i in chunks[j]] for j in rng.permutation(len(chunks))]


def loss_of(model: LlamaForCausalLM, batch: list[Sample]) -> torch.Tensor:
    """Mean cross-entropy of the replies' tokens. Right-padded: causal attention needs no mask then."""
    length = max(len(sample.token_ids) for sample in batch)
    ids = torch.zeros(len(batch), length, dtype=torch.long)
    trained = torch.zeros(len(batch), length, dtype=torch.bool)
    for row, sample in enumerate(batch):
        ids[row, : len(sample.token_ids)] = torch.from_numpy(sample.token_ids)
        trained[row, : len(sample.token_ids)] = torch.from_numpy(sample.trained)
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1][trained[:, 1:]]
    return F.cross_entropy(model.lm_head(hidden), ids[:, 1:][trained[:, 1:]])


def train(model: LlamaForCausalLM, samples: list[Sample], phase: Phase, seed: int) -> dict[str, float]:
    """One epoch of AdamW with warm-up and cosine decay; returns what it cost and reached."""
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


def make(out: Path, scale: float, guess_rate: float, seed: int, workers: int, init: Path | None) -> None:
    """Makes tokenizer and model and saves them as a plain transformers folder, with made.json beside them.

    Args:
        out: folder to write.
        scale: factor on the number of demonstrations.
        guess_rate: share of turns in which the habit phase's teacher guesses.
        seed: of initialisation and of the order of batches.
        workers: processes that make demonstrations.
        init: folder of an earlier skill phase to start the habit phase from; None: from scratch.
    """
    skill, habit = phases(scale, guess_rate)
    made: dict[str, object] = {"scale": scale, "guess_rate": guess_rate, "seed": seed}
    if init is None:
        texts = [as_text(m) for r in (*skill.recipes, *habit.recipes) for m in islice(conversations(r, 0), 300)]
        tokenizer = train_tokenizer(texts, VOCAB_SIZE)
        model = build_model(tokenizer, seed)
    else:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(init, local_files_only=True, trust_remote_code=False)
        model = LlamaForCausalLM.from_pretrained(
            init, dtype=torch.float32, use_safetensors=True, local_files_only=True, trust_remote_code=False
        )
    for index, phase in enumerate((skill, habit)):
        if phase is skill and init is not None:
            continue
        samples = make_samples(list(phase.recipes), TASK_SEED_STRIDE * (index + 1), tokenizer, workers)
        print(f"{phase.name}: {len(samples)} demonstrations", flush=True)
        made[phase.name] = train(model, samples, phase, seed + index)
        folder = out / phase.name if phase is skill else out
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    (out / "made.json").write_text(json.dumps(made, indent=2) + "\n")
    print(f"saved to {out} ({sum(p.numel() for p in model.parameters()):,} parameters)")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, required=True, help="folder to write (the skill phase in its subfolder)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the number of demonstrations")
    parser.add_argument("--guess-rate", type=float, default=0.7, help="share of guessed turns in the habit phase")
    parser.add_argument("--seed", type=int, default=0, help="of initialisation and batch order")
    parser.add_argument("--workers", type=int, default=2, help="processes that make demonstrations")
    parser.add_argument("--threads", type=int, default=2, help="torch threads")
    parser.add_argument("--init", type=Path, help="an earlier run's skill folder: only the habit phase is run")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    make(args.out, args.scale, args.guess_rate, args.seed, args.workers, args.init)


if __name__ == "__main__":
    main()
