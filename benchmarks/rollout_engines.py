"""Generated tokens per second of the rollout engines, side by side, on the embedded model and its Sokoban.

    python -m benchmarks.rollout_engines --out engines.json

Each engine plays the same episodes (same maps, same seeds) in a process of its own with one thread. Two numbers each:
per wall second, and per CPU second, which other work on the machine disturbs less. `generate` is what one would write
without an engine: transformers' own `generate` on the left-padded whole contexts, one barrier per turn.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

import rllib_ragen.models.tiny
from envs.registry import make_text_env
from rllib_ragen.rollout.chat import ChatFormat
from rllib_ragen.rollout.collect import EpisodeSpec, collect
from rllib_ragen.rollout.engines.base import Engine, EngineFailure
from rllib_ragen.types import Sampled, Sampling

TINY = Path(rllib_ragen.models.tiny.__file__).parent / "checkpoint"
MAX_CONTEXT = 1024
MAX_REPLY = 72


class GenerateEngine(Engine):
    """transformers.generate behind the Engine interface: waits for all requests, then pads and generates them."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self._waiting: dict[int, tuple[list[int], Sampling]] = {}

    def add(self, key: int, prompt_ids: Sequence[int], sampling: Sampling) -> None:
        self._waiting[key] = (list(prompt_ids), sampling)

    def poll(self) -> list[tuple[int, Sampled | EngineFailure]]:
        waiting, self._waiting = self._waiting, {}
        if not waiting:
            return []
        width = max(len(prompt) for prompt, _ in waiting.values())
        rows = [[0] * (width - len(prompt)) + prompt for prompt, _ in waiting.values()]
        real = [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt, _ in waiting.values()]
        sampling = next(iter(waiting.values()))[1]
        stops = list(sampling.stop_token_ids)
        output: Any = self.model.generate(  # type: ignore[operator]
            torch.tensor(rows),
            attention_mask=torch.tensor(real),
            max_new_tokens=sampling.max_tokens,
            do_sample=True,
            top_k=0,
            eos_token_id=stops,
            pad_token_id=0,
            output_logits=True,
            return_dict_in_generate=True,
        )
        replies = output.sequences[:, width:]
        logprobs = torch.stack(output.logits, 1).log_softmax(-1).gather(2, replies[..., None])[..., 0]
        results: list[tuple[int, Sampled | EngineFailure]] = []
        for key, ids, values in zip(waiting, replies.tolist(), logprobs.tolist(), strict=True):
            ends = [i + 1 for i, token in enumerate(ids) if token in stops]
            length = ends[0] if ends else len(ids)
            results.append((key, Sampled(ids[:length], values[:length], bool(ends), 0)))
        return results

    def forget(self, key: int) -> None:
        self._waiting.pop(key, None)

    def load_weights(self, named: Any, version: int) -> None:
        raise NotImplementedError("only measured, never trained")

    def reset(self) -> None:
        self._waiting.clear()

    def close(self) -> None:
        self.reset()


def make_engine(name: str, rows: int) -> Engine:
    """The engine `name` on the embedded model."""
    if name == "vllm":
        from rllib_ragen.rollout.engines.vllm import VLLMEngine

        return VLLMEngine(TINY, max_context=MAX_CONTEXT, max_rows=rows)
    model = AutoModelForCausalLM.from_pretrained(TINY)
    if name == "generate":
        return GenerateEngine(model)
    from rllib_ragen.rollout.engines.hf import HFEngine

    return HFEngine(model, max_context=MAX_CONTEXT, max_rows=rows)


def measure(name: str, style: str, rows: int, groups: int, group_size: int, repeats: int) -> dict[str, Any]:
    """Plays groups × group_size episodes `repeats` times, after a small warm-up; the fastest one counts."""
    torch.set_num_threads(1)
    engine, chat = make_engine(name, rows), ChatFormat.from_folder(TINY)
    sampling = Sampling(MAX_REPLY, chat.stop_token_ids)

    def play(count: int) -> dict[str, Any]:
        specs = [EpisodeSpec(f"g{i // group_size}", i // group_size, i, i) for i in range(count)]
        engine.reset()
        wall, cpu = time.perf_counter(), time.process_time()
        trajectories = collect(
            specs,
            engine=engine,
            chat=chat,
            make_env=lambda: make_text_env("sokoban", {"observation": "both"}, {"prompt_style": style}),
            sampling=sampling,
            max_context_tokens=MAX_CONTEXT,
            max_concurrent=rows,
        )
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        assert not any(trajectory.stop_reason.failed for trajectory in trajectories)
        generated = sum(trajectory.num_reply_tokens for trajectory in trajectories)
        return {
            "engine": name,
            "prompt_style": style,
            "rows": rows,
            "episodes": count,
            "generated_tokens": generated,
            "prompt_tokens": sum(trajectory.num_tokens for trajectory in trajectories) - generated,
            "wall_s": round(wall, 2),
            "cpu_s": round(cpu, 2),
            "tokens_per_wall_s": round(generated / wall),
            "tokens_per_cpu_s": round(generated / cpu),
        }

    play(8)
    return max((play(groups * group_size) for _ in range(repeats)), key=lambda row: float(row["tokens_per_cpu_s"]))


def main() -> None:
    """Measures each engine and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--engines", nargs="+", default=["hf", "generate", "vllm"], choices=["hf", "generate", "vllm"])
    parser.add_argument("--styles", nargs="+", default=["brief", "full"], help="prompt styles")
    parser.add_argument("--rows", type=int, nargs="+", default=[128], help="episodes in flight")
    parser.add_argument("--groups", type=int, default=32, help="task instances")
    parser.add_argument("--group-size", type=int, default=4, help="episodes per instance")
    parser.add_argument("--repeats", type=int, default=2, help="the fastest counts")
    parser.add_argument("--out", type=Path, help="JSON file")
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    results = []
    for style in args.styles:
        for rows in args.rows:
            for name in args.engines:
                if name == "vllm" and find_spec("vllm") is None:
                    print("vllm: not installed, not measured")
                    continue
                with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
                    work = (name, style, rows, args.groups, args.group_size, args.repeats)
                    results.append(pool.submit(measure, *work).result())
                row = results[-1]
                print(
                    f"{name:>9} {style:>6} rows {rows:>4}: {row['tokens_per_cpu_s']:>6} tokens per CPU second, "
                    f"{row['tokens_per_wall_s']:>6} per wall second ({row['generated_tokens']} tokens)",
                    flush=True,
                )
    if args.out:
        args.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
