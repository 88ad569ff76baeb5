"""End to end against TRL: trajectories per CPU second of whole training iterations, ours ÷ TRL's GRPOTrainer.

    pip install trl                         # in an environment of its own, if you do not want its dependencies here
    python -m benchmarks.against_trl --out trl.json

Both train the embedded model on Sokoban with GRPO, 32 rooms × 4 trajectories an iteration, one update, one thread, the
same limits. TRL gets its experimental `rollout_func`: the multi-turn loop that its users write, here with our
environments and chat format and with transformers' `generate` on left-padded contexts, one barrier per turn (TRL's own
way of sampling without a vLLM that it supports). Learning rates are so small that both keep sampling the same policy.
Our time is that of the driver process, which samples and learns; Ray's own processes idle beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from benchmarks.rollout_engines import GenerateEngine
from benchmarks.side_by_side import Timed, interleaved, summary, timed, worker
from benchmarks.sokoban_episodes import MAX_CONTEXT, MAX_REPLY, TINY

GROUPS, GROUP_SIZE = 32, 4
"""Rooms per iteration and trajectories per room: this package's defaults."""
LR = 1e-9
"""Learning rate: so small that both keep sampling the same policy."""
_state: dict[str, Any] = {}


def start_ours() -> None:
    """Builds our algorithm, with sampler and learner in this process."""
    from rllib_ragen.config.schema import RunConfig
    from rllib_ragen.run.start_ray import start_ray
    from rllib_ragen.starpo.config import StarPOConfig

    run = RunConfig.model_validate(
        {
            "rollout": {"engine": "hf", "num_groups": GROUPS, "group_size": GROUP_SIZE},
            "credit": {"estimator": "grpo", "normalize": "none"},
            "learner": {"lr": LR, "torch_threads": 1},
            "env": {"task": {"observation": "both"}},
        }
    )
    start_ray(run)
    _state["algo"] = StarPOConfig.from_run_config(run).build_algo()


def train_ours() -> tuple[Timed, float]:
    """Runs one iteration → (time of its trajectories, sampled tokens)."""
    algo = _state["algo"]
    result = timed(lambda: (algo.train(), float(GROUPS * GROUP_SIZE))[1])
    return result, float(sum(trajectory.num_reply_tokens for trajectory in algo.last_trajectories()))


def train_trl() -> tuple[Timed, float]:
    """Runs two steps of a new GRPOTrainer, of which the second counts."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    clock: list[tuple[float, float]] = []
    sampled: list[int] = []

    class Clock(TrainerCallback):
        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            clock.append((time.perf_counter(), time.process_time()))

    def reward(completions: Any, episode_return: list[float], **kwargs: Any) -> list[float]:
        return episode_return

    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(TINY, trust_remote_code=False),
            reward_funcs=reward,
            args=GRPOConfig(
                output_dir=folder, max_steps=2, per_device_train_batch_size=GROUPS * GROUP_SIZE,
                num_generations=GROUP_SIZE, max_completion_length=MAX_CONTEXT, learning_rate=LR, beta=0.0, bf16=False,
                use_cpu=True, gradient_checkpointing=False, report_to="none", save_strategy="no", disable_tqdm=True,
                logging_strategy="no",
            ),
            train_dataset=Dataset.from_dict({"prompt": [f"room {i}" for i in range(2 * GROUPS)]}),
            processing_class=AutoTokenizer.from_pretrained(TINY, trust_remote_code=False),
            rollout_func=lambda prompts, trainer: play(prompts, trainer, sampled),
            callbacks=[Clock()],
        )  # fmt: skip
        trainer.train()
    (wall0, cpu0), (wall1, cpu1) = clock
    return Timed(float(GROUPS * GROUP_SIZE), wall1 - wall0, cpu1 - cpu0), float(sampled[-1])


def play(prompts: list[str], trainer: Any, sampled: list[int]) -> dict[str, Any]:
    """Plays one Sokoban episode per prompt, `room N` naming the room: TRL's `rollout_func`."""
    from ragen_envs.registry import make_text_env
    from rllib_ragen.models.chat_format import ChatFormat
    from rllib_ragen.rollout.collect import collect
    from rllib_ragen.rollout.specs import EpisodeSpec
    from rllib_ragen.types import Sampling

    chat = _state.setdefault("chat", ChatFormat.from_folder(TINY))
    round_seed = 10_000 * len(sampled)
    specs = [EpisodeSpec(p, int(p.split()[1]), i, round_seed + i) for i, p in enumerate(prompts)]
    trajectories = collect(
        specs,
        engine=GenerateEngine(trainer.model),
        chat=chat,
        make_env=lambda: make_text_env("sokoban", {"observation": "both"}, {"prompt_style": "brief"}),
        sampling=Sampling(MAX_REPLY, chat.stop_token_ids),
        max_context_tokens=MAX_CONTEXT,
    )
    sampled.append(sum(trajectory.num_reply_tokens for trajectory in trajectories))
    first = [len(trajectory.turns[0].prompt_ids) for trajectory in trajectories]
    ids = [trajectory.token_ids().tolist() for trajectory in trajectories]
    return {
        "prompt_ids": [all_ids[:n] for all_ids, n in zip(ids, first, strict=True)],
        "completion_ids": [all_ids[n:] for all_ids, n in zip(ids, first, strict=True)],
        "logprobs": [t.behaviour_logprobs()[n:].tolist() for t, n in zip(trajectories, first, strict=True)],
        "env_mask": [(t.turn_index()[n:] >= 0).astype(int).tolist() for t, n in zip(trajectories, first, strict=True)],
        "episode_return": [trajectory.episode_return for trajectory in trajectories],
    }


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=5, help="interleaved repeats after a warm-up")
    parser.add_argument("--out", type=Path, help="JSON file")
    args = parser.parse_args()
    import trl

    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
    tokens: dict[str, list[float]] = {"ours": [], "trl": []}
    with worker() as ours, worker() as theirs:
        ours.call(start_ours)

        def one(name: str) -> Timed:
            result, sampled = ours.call(train_ours) if name == "ours" else theirs.call(train_trl)
            tokens[name].append(sampled)
            return result

        found = interleaved({name: (lambda name=name: one(name)) for name in tokens}, args.repeats)  # type: ignore[misc]
    row = {
        "unit": "trajectories",
        "trl": trl.__version__,
        **{f"{name}_tokens": statistics.median(values) for name, values in tokens.items()},
        **summary(found, "ours", "trl"),
    }
    print(json.dumps(row))
    if args.out:
        args.out.write_text(json.dumps(row, indent=2) + "\n")


if __name__ == "__main__":
    main()
