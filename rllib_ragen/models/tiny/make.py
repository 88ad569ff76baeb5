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
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from rllib_ragen.models.tiny.demonstrations import Recipe, Sample, as_text, conversations, make_samples
from rllib_ragen.models.tiny.teacher import Lesson
from rllib_ragen.models.tiny.tokenizer import train_tokenizer

VOCAB_SIZE = 512
"""Size of the vocabulary: chosen freely; prompts and replies of the tasks need fewer tokens."""
_HEAD_SIZE = 32
"""Size of an attention head: the smallest that vLLM's CPU attention supports."""
_WARMUP_STEPS = 50
"""Steps over which the learning rate rises: chosen freely."""
_LOG_EVERY = 50
"""Steps between two lines of progress: chosen freely."""


@dataclass(frozen=True)
class Phase:
    """One phase of supervised training."""

    name: str
    recipes: tuple[Recipe, ...]
    learning_rate: float
    batch_size: int = 32


MAX_PLAN = 5
"""Longest Sokoban plan that is demonstrated, in moves: as many as the default turn has; longer ones are left to RL."""
_WORDS_NUMBER = 100
"""Number of the first recipe of Bandit's and Countdown's model: chosen freely, above those of the embedded model."""


Settings = tuple[tuple[str, object], ...]


def phases(scale: float) -> tuple[Phase, Phase]:
    """Returns two phases: skills, then copying of names and numbers mixed with the skills.

    `scale` multiplies the episodes.
    """
    short: Settings = (("max_solution_steps", MAX_PLAN),)
    certain: Settings = (("success_rate", 1.0),)
    contrary: Settings = (("reversed", True),)
    silent: Settings = (("think", False),)
    long: Settings = (("max_actions", 20),)
    sokoban, plain, lake = Lesson(wander_rate=0.3, max_plan=MAX_PLAN), Lesson(), Lesson(wander_rate=0.05)
    skill: list[tuple[str, int, Lesson, Settings, Settings]] = [
        ("sokoban", 26_000, sokoban, short, long),
        ("sokoban", 5_000, sokoban, short, (*long, *silent)),
        ("frozen_lake", 4_000, lake, (), ()),
        ("frozen_lake", 1_500, lake, certain, ()),
        ("frozen_lake", 1_500, lake, (), silent),
        ("bandit", 2_000, plain, (), ()),
        ("bandit", 500, plain, (), silent),
        ("bandit", 500, plain, contrary, ()),
        ("countdown", 3_000, plain, (), ()),
        ("countdown", 1_500, plain, (), silent),
    ]
    copying: list[tuple[str, int, Lesson, Settings, Settings]] = [
        ("sokoban", 4_000, sokoban, short, long),
        ("sokoban", 1_000, sokoban, short, (*long, *silent)),
        ("frozen_lake", 1_500, lake, (), ()),
        ("frozen_lake", 500, lake, (), silent),
        ("bandit", 6_000, plain, (), ()),
        ("bandit", 3_000, plain, (), silent),
        ("bandit", 1_000, plain, contrary, ()),
        ("countdown", 6_000, plain, (), ()),
        ("countdown", 4_000, plain, (), silent),
    ]
    numbered = [
        Recipe(env, max(1, int(count * scale)), lesson, task, limits, number)
        for number, (env, count, lesson, task, limits) in enumerate([*skill, *copying])
    ]
    taught, copied = tuple(numbered[: len(skill)]), tuple(numbered[len(skill) :])
    return Phase("skill", taught, 2e-3, 16), Phase("copying", copied, 1e-3, 16)


def words_phases(scale: float) -> tuple[Phase, ...]:
    """Returns the phases of Bandit's and Countdown's small model, which only has to copy names and numbers."""
    contrary: Settings = (("reversed", True),)
    silent: Settings = (("think", False),)
    kinds: list[tuple[str, int, Settings, Settings]] = [
        ("bandit", 12_000, (), ()),
        ("bandit", 6_000, (), silent),
        ("bandit", 2_000, contrary, ()),
        ("countdown", 12_000, (), ()),
        ("countdown", 6_000, (), silent),
    ]
    more: list[tuple[str, int, Settings, Settings]] = [
        ("bandit", 5_000, (), ()),
        ("bandit", 3_000, (), silent),
        ("bandit", 1_000, contrary, ()),
        ("countdown", 6_000, (), ()),
        ("countdown", 2_000, (), silent),
    ]
    again: list[tuple[str, int, Settings, Settings]] = [
        ("bandit", 9_000, (), ()),
        ("bandit", 4_000, (), silent),
        ("bandit", 1_000, contrary, ()),
        ("countdown", 5_000, (), ()),
        ("countdown", 1_000, (), silent),
    ]
    planned, number = [], _WORDS_NUMBER
    for name, rate, part in (("words", 2e-3, kinds), ("names", 1.5e-3, more), ("again", 1.5e-3, again)):
        found = []
        for env, count, task, limits in part:
            found.append(Recipe(env, max(1, int(count * scale)), Lesson(), task, limits, number))
            number += 1
        planned.append(Phase(name, tuple(found), rate, 16))
    return tuple(planned)


def recipes(scale: float) -> tuple[Recipe, ...]:
    """Returns the recipes of all phases."""
    return tuple(recipe for phase in phases(scale) for recipe in phase.recipes)


def build_model(
    tokenizer: PreTrainedTokenizerFast,
    seed: int,
    *,
    num_heads: int = 4,
    num_layers: int = 4,
    intermediate_size: int = 256,
    max_length: int = 2_048,
) -> LlamaForCausalLM:
    """Builds a small Llama, by default of 0.6M parameters.

    It has one KV head, because the cost of decoding on a CPU is in KV heads; head size 32, the smallest that vLLM's CPU
    attention supports.
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
    """Returns one epoch of batches of similar length, in random order."""
    order = rng.permutation(len(samples))
    pools = [order[i : i + 8 * batch_size] for i in range(0, len(order), 8 * batch_size)]
    chunks = []
    for pool in pools:
        by_length = sorted(pool, key=lambda i: len(samples[i].token_ids))
        chunks += [by_length[i : i + batch_size] for i in range(0, len(by_length), batch_size)]
    return [[samples[i] for i in chunks[j]] for j in rng.permutation(len(chunks))]


def loss_of(model: LlamaForCausalLM, batch: list[Sample]) -> torch.Tensor:
    """Computes the mean cross-entropy of the replies' tokens. Right padding needs no mask with causal attention."""
    length = max(len(sample.token_ids) for sample in batch)
    ids = torch.zeros(len(batch), length, dtype=torch.long)
    trained = torch.zeros(len(batch), length, dtype=torch.bool)
    for row, sample in enumerate(batch):
        ids[row, : len(sample.token_ids)] = torch.from_numpy(sample.token_ids)
        trained[row, : len(sample.token_ids)] = torch.from_numpy(sample.trained)
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1][trained[:, 1:]]
    return F.cross_entropy(model.lm_head(hidden), ids[:, 1:][trained[:, 1:]])


def train(model: LlamaForCausalLM, samples: list[Sample], phase: Phase, seed: int) -> dict[str, float]:
    """Trains one epoch of AdamW with warm-up and cosine decay → its cost and final loss."""
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


def make(out: Path, plan: Sequence[Phase], seed: int, workers: int, init: Path | None) -> None:
    """Makes tokenizer and model and saves them as a plain transformers folder, with made.json beside them.

    Args:
        out: folder to write; all phases but the last one in subfolders of their names.
        plan: phases; the tokenizer is made from the first.
        seed: seed of the initialisation and of the order of batches.
        workers: processes that make demonstrations.
        init: folder of a finished first phase to continue from; None: from scratch.
    """
    made: dict[str, object] = {"seed": seed, "max_plan": MAX_PLAN} | _surroundings(plan)
    first = plan[0]
    if init is None:
        texts = [as_text(messages) for recipe in first.recipes for messages in islice(conversations(recipe), 200)]
        tokenizer = train_tokenizer(texts, VOCAB_SIZE)
        model = build_model(tokenizer, seed)
    else:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(init, local_files_only=True, trust_remote_code=False)
        model = LlamaForCausalLM.from_pretrained(
            init, dtype=torch.float32, use_safetensors=True, local_files_only=True, trust_remote_code=False
        )
        made |= {
            name: value for name, value in json.loads((init / "made.json").read_text()).items() if name not in made
        }
    for index, phase in enumerate(plan):
        if index == 0 and init is not None:
            continue
        samples = make_samples(phase.recipes, tokenizer, workers)
        print(f"{phase.name}: {len(samples)} demonstrations", flush=True)
        found = train(model, samples, phase, seed + index)
        made[phase.name] = {"demonstrations": len(samples), **found}
        made["tokens"] = sum(done["tokens"] for done in made.values() if isinstance(done, dict) and "tokens" in done)
        folder = out if phase is plan[-1] else out / phase.name
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        (folder / "made.json").write_text(json.dumps(made, indent=2) + "\n")
    print(f"saved to {out} ({sum(p.numel() for p in model.parameters()):,} parameters)")


def _surroundings(plan: Sequence[Phase]) -> dict[str, object]:
    """Returns versions and recipes that the weights depend on beside the arguments."""
    return {
        "commit": _commit(),
        "threads": torch.get_num_threads(),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__, "numpy": np.__version__},
        "taught": [
            {"env": r.env, "think": dict(r.limits).get("think", True), "task": dict(r.task), "episodes": r.count}
            for phase in plan
            for r in phase.recipes
        ],
    }


def _commit() -> str:
    """Returns the commit of the source, with a + if there are uncommitted changes; empty outside of git."""
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
    parser.add_argument("--out", type=Path, required=True, help="folder to write (the skill phase in its subfolder)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the number of demonstrations")
    parser.add_argument("--seed", type=int, default=0, help="of initialisation and batch order")
    parser.add_argument("--workers", type=int, default=2, help="processes that make demonstrations")
    parser.add_argument("--threads", type=int, default=2, help="torch threads")
    parser.add_argument("--words", action="store_true", help="the model of Bandit and Countdown instead")
    parser.add_argument("--init", type=Path, help="an earlier run's skill folder: only the second phase is run")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    plan = words_phases(args.scale) if args.words else phases(args.scale)
    make(args.out, plan, args.seed, args.workers, args.init)


if __name__ == "__main__":
    main()
