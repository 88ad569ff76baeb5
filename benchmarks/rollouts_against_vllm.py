"""Multi-turn rollouts against vLLM alone: generated tokens per second, ours ÷ vLLM's, and continuous ÷ locked.

    python -m benchmarks.rollouts_against_vllm --out rollouts.json

raw     Our rollouts play Sokoban with the embedded model: environments, parsing, tokenisation and all. `LLM.generate`
        then gets the very prompts, seeds and limits of all those turns in one call, so it may batch what the game
        keeps apart, and makes the same tokens. Both with the same cap on requests in flight, prefix cache on. With
        `--rounds 1` every environment plays one episode, so the last ones decode nearly alone; with more, a free slot
        is taken by the next episode. Every repeat plays other rooms, so nothing is remembered that a run would not.
replay  vLLM's `LLMEngine` gets the same requests in the game's order: a turn when the turn before it is finished, with
        the same number of episodes in flight, and no game in between. It is what vLLM makes of such requests, so ours ÷
        replay is the cost of the game and of our code alone, and replay ÷ raw that of turns that wait for each other.
locked  Our rollouts with replies of uneven length, against the same episodes when every turn waits for the slowest
        reply of all. Lengths are `spread` (log-uniform between 8 and 256 tokens) or `tailed` (16, and 256 for one reply
        in ten).

One thread per process, repeats interleaved; the median of the repeats' ratios counts.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.side_by_side import Timed, Worker, interleaved, summary, timed, worker
from benchmarks.sokoban_episodes import MAX_CONTEXT, MAX_REPLY, TINY, episode_specs, play_episodes
from ragen_envs.seeds import Stream, seed_of
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.rollout.engines.base import Engine, EngineFailure
from rllib_ragen.rollout.specs import EpisodeSpec
from rllib_ragen.types import Sampled, Sampling, Trajectory

LENGTHS: dict[str, Callable[[float], float]] = {
    "spread": lambda u: 8 * 32**u,
    "tailed": lambda u: 16 if u < 0.9 else 256,
}
"""Functions from a uniform number to the tokens of a reply."""
Request = tuple[list[int], Sampling]
_state: dict[str, Any] = {}


class Uneven(Engine):
    """An engine whose seeds decide the lengths of replies; `locked` holds all replies back for the slowest."""

    def __init__(self, inner: Engine, locked: bool, lengths: str) -> None:
        self.inner, self.locked, self.length_of = inner, locked, LENGTHS[lengths]
        self.max_context, self.vocab_size = inner.max_context, inner.vocab_size

    def add(self, key: int, prompt_ids: Sequence[int], sampling: Sampling) -> None:
        length = int(self.length_of(np.random.default_rng(sampling.seed).uniform()))
        self.inner.add(key, prompt_ids, replace(sampling, max_tokens=length, stop_token_ids=()))

    def poll(self) -> list[tuple[int, Sampled | EngineFailure]]:
        results = finished = self.inner.poll()
        while self.locked and finished:
            finished = self.inner.poll()
            results = results + finished
        return results

    def forget(self, key: int) -> None:
        self.inner.forget(key)

    def load_weights(self, named: Any, version: int) -> None:
        self.inner.load_weights(named, version)

    def reset(self) -> None:
        self.inner.reset()

    def close(self) -> None:
        self.inner.close()


def start_ours(rows: int, max_context: int) -> None:
    """Starts our engine in this process."""
    from rllib_ragen.rollout.engines.vllm import VLLMEngine

    torch.set_num_threads(1)
    if "engine" in _state:
        _state["engine"].close()
    _state["engine"] = VLLMEngine(TINY, max_context=max_context, max_rows=rows)


def start_raw(rows: int) -> None:
    """Starts vLLM's own front end in this process, with the engine arguments of ours."""
    from rllib_ragen.rollout.engines.vllm import _fixed_args, prepare_process

    torch.set_num_threads(1)
    prepare_process(on_gpu=False)
    from vllm import LLM

    args = _fixed_args(False, MAX_CONTEXT) | {"disable_log_stats": True}
    args.pop("worker_extension_cls")
    _state.pop("llm", None)
    _state["llm"] = LLM(
        str(TINY),
        trust_remote_code=False,
        dtype="float32",
        max_model_len=MAX_CONTEXT,
        max_num_seqs=rows,
        kv_cache_memory_bytes=1 << 30,
        enforce_eager=True,
        **args,
    )


def play(
    specs: Sequence[EpisodeSpec], rows: int, lengths: str = "", locked: bool = False
) -> tuple[Timed, list[Trajectory]]:
    """Plays one episode per spec, `rows` in flight; the model decides the lengths of replies unless `lengths` does."""
    engine: Engine = _state["engine"]
    engine.reset()
    chat = _state.setdefault("chat", ChatFormat.from_folder(TINY))
    playing = Uneven(engine, locked, lengths) if lengths else engine
    return play_episodes(playing, chat, specs, rows, engine.max_context, "brief")


def play_uneven(count: int, lengths: str, locked: bool) -> Timed:
    """Plays as `play`, without returning the trajectories."""
    return play(episode_specs(0, count), count, lengths, locked)[0]


def requests_of(specs: Sequence[EpisodeSpec], trajectories: Sequence[Trajectory]) -> list[list[Request]]:
    """Returns the requests of each trajectory, in order."""
    stops = ChatFormat.from_folder(TINY).stop_token_ids
    found = []
    for spec, trajectory in zip(specs, trajectories, strict=True):
        context: list[int] = []
        requests = []
        for k, turn in enumerate(trajectory.turns):
            context = context + turn.prompt_ids.tolist()
            limit = min(MAX_REPLY, MAX_CONTEXT - len(context))
            requests.append(
                (context, Sampling(limit, stops, seed=seed_of(Stream.TURN_SAMPLING, spec.sampling_seed, k)))
            )
            context = context + turn.reply_ids.tolist()
        found.append(requests)
    return found


def generate_raw(episodes: Sequence[Sequence[Request]]) -> Timed:
    """Runs `LLM.generate` on all requests at once."""
    llm = _state["llm"]
    llm.reset_prefix_cache()
    prompts, params = zip(*map(_as_vllm, itertools.chain(*episodes)), strict=True)
    return timed(lambda: float(sum(len(o.outputs[0].token_ids) for o in llm.generate(prompts, params, use_tqdm=False))))


def replay_raw(episodes: Sequence[Sequence[Request]], rows: int) -> Timed:
    """Runs `LLMEngine` on the requests of `rows` episodes at a time, each after the one before it."""
    _state["llm"].reset_prefix_cache()
    engine = _state["llm"].llm_engine
    left = [[_as_vllm(request) for request in reversed(requests)] for requests in episodes]
    waiting = list(reversed(range(len(left))))

    def work() -> float:
        tokens = 0.0
        for _ in range(min(rows, len(waiting))):
            number = waiting.pop()
            engine.add_request(str(number), *left[number].pop())
        while engine.has_unfinished_requests():
            for output in engine.step():
                if output.finished:
                    tokens += len(output.outputs[0].token_ids)
                    number = int(output.request_id)
                    if not left[number]:
                        if not waiting:
                            continue
                        number = waiting.pop()
                    engine.add_request(str(number), *left[number].pop())
        return tokens

    return timed(work)


def _as_vllm(request: Request) -> tuple[dict[str, list[int]], Any]:
    from rllib_ragen.rollout.engines.vllm import _sampling_params

    prompt, sampling = request
    return {"prompt_token_ids": prompt}, _sampling_params(sampling, MAX_CONTEXT - len(prompt))


def against_raw(ours: Worker, raw: Worker, rows: int, rounds: int, repeats: int) -> list[dict[str, Any]]:
    """Measures generated tokens per second with `rows` environments that play `rounds` episodes each."""
    ours.call(start_ours, rows, MAX_CONTEXT)
    raw.call(start_raw, rows)
    count = rows * rounds
    first = itertools.count(step=count)
    requests: list[list[Request]] = []

    def play_others() -> Timed:
        specs = episode_specs(next(first), count)
        result, trajectories = ours.call(play, specs, rows)
        requests[:] = requests_of(specs, trajectories)
        return result

    found = interleaved(
        {
            "ours": play_others,
            "raw": lambda: raw.call(generate_raw, requests),
            "replay": lambda: raw.call(replay_raw, requests, rows),
        },
        repeats,
    )
    for other in ("raw", "replay"):
        assert [one.amount for one in found["ours"]] == [one.amount for one in found[other]], "not the same tokens"
    facts = {"environments": rows, "rounds": rounds, "tokens": [one.amount for one in found["ours"]]}
    return [
        {"what": f"{ours} ÷ {opponent}", **facts, **summary(found, ours, opponent)}
        for ours, opponent in (("ours", "raw"), ("ours", "replay"), ("replay", "raw"))
    ]


def against_locked(ours: Worker, count: int, lengths: str, repeats: int) -> dict[str, Any]:
    """Measures continuous ÷ turn-locked with `count` environments."""
    found = interleaved(
        {
            "continuous": lambda: ours.call(play_uneven, count, lengths, False),
            "locked": lambda: ours.call(play_uneven, count, lengths, True),
        },
        repeats,
    )
    row = {"what": "continuous ÷ locked", "lengths": lengths, "environments": count}
    return row | summary(found, "continuous", "locked")


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--environments", type=int, nargs="+", default=[64, 256], help="episodes in flight")
    parser.add_argument("--rounds", type=int, nargs="+", default=[1, 4], help="episodes of each environment")
    parser.add_argument("--lengths", nargs="*", choices=list(LENGTHS), default=list(LENGTHS), help="uneven replies")
    parser.add_argument("--repeats", type=int, default=5, help="interleaved repeats after a warm-up")
    parser.add_argument("--out", type=Path, help="JSON file")
    args = parser.parse_args()
    rows = []
    with worker() as ours, worker() as raw:
        for count in args.environments:
            for rounds in args.rounds:
                for row in against_raw(ours, raw, count, rounds, args.repeats):
                    rows.append(row)
                    print(json.dumps(row, ensure_ascii=False), flush=True)
            ours.call(start_ours, count, 2048)
            for lengths in args.lengths:
                rows.append(against_locked(ours, count, lengths, args.repeats))
                print(json.dumps(rows[-1], ensure_ascii=False), flush=True)
    if args.out:
        args.out.write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
