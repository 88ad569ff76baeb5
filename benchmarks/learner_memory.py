"""Peak memory of log-probs and entropies with their backward pass: the learner's chunks against the plain way.

    python -m benchmarks.learner_memory --out memory.json

Each way runs in a process of its own on the same random hidden states and output layer, by default 1024 trained tokens
of a 151,936-token vocabulary (Qwen2.5's) at a small width, which matters little here. Two numbers each, beyond what
inputs and gradients take: growth of the process's peak resident memory, and the peak of live tensors as counted
operation by operation.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.learner_peak_memory import PeakMemory
from rllib_ragen.models.logit_head import LogitHead
from rllib_ragen.models.token_scores import token_scores

MEGABYTE = 1 << 20
"""Bytes of the unit of the results."""


def plain_scores(hidden: Tensor, weight: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Computes the scores in the plain way: logits of all tokens, and their softmax."""
    logp = (hidden @ weight.T).log_softmax(-1)
    return logp.gather(-1, tokens[:, None])[:, 0], -(logp.exp() * logp).sum(-1)


def measure(way: str, tokens: int, vocabulary: int, width: int, counted: bool) -> dict[str, Any]:
    """Measures one forward and backward pass; `counted`: by operation, else by the system."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    weight = torch.randn(vocabulary, width, requires_grad=True)
    hidden = torch.randn(tokens, width, requires_grad=True)
    ids = torch.randint(vocabulary, (tokens,))
    weight.grad, hidden.grad = torch.zeros_like(weight), torch.zeros_like(hidden)

    def work() -> None:
        logprobs, entropy = (
            plain_scores(hidden, weight, ids)
            if way == "plain"
            else token_scores(hidden, weight, None, ids, LogitHead())
        )
        (logprobs + 0.01 * entropy).sum().backward()

    if counted:
        with PeakMemory() as memory:
            work()
        return {"live_tensors_mb": round(memory.peak / MEGABYTE), "largest_tensor_mb": round(memory.largest / MEGABYTE)}
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    work()
    cpu_s = time.process_time() - start
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"resident_mb": round(grown / 1024), "cpu_s": round(cpu_s, 2)}


def main() -> None:
    """Measures both ways and prints them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--tokens", type=int, default=1024, help="trained tokens")
    parser.add_argument("--vocabulary", type=int, default=151_936, help="tokens in the vocabulary")
    parser.add_argument("--width", type=int, default=64, help="hidden size")
    parser.add_argument("--out", type=Path, help="JSON file")
    args = parser.parse_args()
    results: dict[str, Any] = {"tokens": args.tokens, "vocabulary": args.vocabulary, "width": args.width}
    for way in ("plain", "chunks"):
        results[way] = {}
        for counted in (False, True):
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
                work = pool.submit(measure, way, args.tokens, args.vocabulary, args.width, counted)
                results[way] |= work.result()
    print(json.dumps(results, indent=2))
    if args.out:
        args.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
