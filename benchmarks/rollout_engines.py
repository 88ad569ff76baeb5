"""Generated tokens per second of the hf engine against others, on the embedded model and its Sokoban.

    python -m benchmarks.rollout_engines --out engines.json

Each engine plays the same rooms with the same seeds in a process of its own with one thread; every repeat plays others.
Repeats are interleaved, and the median of their ratios counts, per wall second and per CPU second, which other work on
the machine disturbs less. `vllm` is this package's own vLLM engine; `generate` is what one would write without an
engine: transformers' own `generate` on the left-padded whole contexts, one barrier per turn.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from benchmarks.side_by_side import Timed, Worker, interleaved, summary, worker
from benchmarks.sokoban_episodes import MAX_CONTEXT, TINY, episode_specs, play_episodes
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.rollout.engines.base import Engine, EngineFailure
from rllib_ragen.types import Sampled, Sampling

_state: dict[str, Any] = {}


class GenerateEngine(Engine):
    """An engine of transformers.generate, which waits for all requests, then pads and generates them."""

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
    """Makes the engine `name` with the embedded model."""
    if name == "vllm":
        from rllib_ragen.rollout.engines.vllm import VLLMEngine

        return VLLMEngine(TINY, max_context=MAX_CONTEXT, max_rows=rows)
    model = AutoModelForCausalLM.from_pretrained(TINY, trust_remote_code=False)
    if name == "generate":
        return GenerateEngine(model)
    from rllib_ragen.rollout.engines.hf import HFEngine

    return HFEngine(model, max_context=MAX_CONTEXT, max_rows=rows)


def start(name: str, rows: int) -> None:
    """Starts an engine in this process, with its chat format."""
    torch.set_num_threads(1)
    _state.update(engine=make_engine(name, rows), chat=ChatFormat.from_folder(TINY))


def play(style: str, rows: int, first: int, count: int) -> Timed:
    """Plays `count` episodes with seeds from `first` → time of the generated tokens."""
    engine, chat = _state["engine"], _state["chat"]
    engine.reset()
    return play_episodes(engine, chat, episode_specs(first, count), rows, MAX_CONTEXT, style)[0]


def compare(workers: Mapping[str, Worker], style: str, rows: int, count: int, repeats: int) -> list[dict[str, Any]]:
    """Compares ours (hf) with each other engine on the same episodes, which differ in every repeat."""
    for name, worker_ in workers.items():
        worker_.call(start, name, rows)

    def way(worker_: Worker) -> Callable[[], Timed]:
        first = itertools.count(step=count)
        return lambda: worker_.call(play, style, rows, next(first), count)

    found = interleaved({name: way(worker_) for name, worker_ in workers.items()}, repeats)
    facts = {"prompt_style": style, "rows": rows, "episodes": count}
    return [
        {"ours": "hf", "opponent": name, **facts, **summary({"hf": found["hf"], name: found[name]}, "hf", name)}
        for name in workers
        if name != "hf"
    ]


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--opponents", nargs="+", default=["vllm", "generate"], choices=["vllm", "generate"])
    parser.add_argument("--styles", nargs="+", default=["brief", "full"], help="prompt styles")
    parser.add_argument("--rows", type=int, nargs="+", default=[128], help="episodes in flight")
    parser.add_argument("--episodes", type=int, default=128, help="of every repeat, in groups of 4")
    parser.add_argument("--repeats", type=int, default=5, help="interleaved repeats after a warm-up")
    parser.add_argument("--out", type=Path, help="JSON file")
    args = parser.parse_args()
    rows = []
    for style in args.styles:
        for in_flight in args.rows:
            with ExitStack() as stack:
                # vLLM takes its process for good, so every setting gets new ones.
                workers = {name: stack.enter_context(worker()) for name in ("hf", *args.opponents)}
                for row in compare(workers, style, in_flight, args.episodes, args.repeats):
                    rows.append(row)
                    print(json.dumps(row), flush=True)
    if args.out:
        args.out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
