"""Loading new weights into a running vLLM engine ÷ a plain copy of the same tensors.

    python -m benchmarks.weight_update --out weights.json

The model is random, of the shape of SmolLM2-135M. `ours` is VLLMEngine.load_weights: checks, load, repacking of tied
embeddings, cache dropped. `copy` is `destination.copy_(source)` for each tensor. One thread, repeats interleaved.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import LlamaForCausalLM

from benchmarks.learner_speed import write_smol
from benchmarks.side_by_side import Timed, interleaved, summary, timed, worker

_state: dict[str, Any] = {}
DTYPES: dict[str, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def start(folder: str, dtype: Literal["float32", "bfloat16"]) -> None:
    """Starts an engine, and makes new weights in its dtype and a destination for copies."""
    from rllib_ragen.rollout.engines.vllm import VLLMEngine

    torch.set_num_threads(1)
    model = LlamaForCausalLM.from_pretrained(folder, dtype=DTYPES[dtype], trust_remote_code=False)
    _state["named"] = {name: tensor.detach() for name, tensor in model.named_parameters()}
    _state["copies"] = {name: torch.zeros_like(tensor) for name, tensor in _state["named"].items()}
    if "engine" in _state:
        _state["engine"].close()
    _state["engine"] = VLLMEngine(folder, max_context=256, max_rows=4, dtype=dtype)


def load() -> Timed:
    """Loads the weights with our engine."""
    return timed(lambda: (_state["engine"].load_weights(_state["named"], 1), num_parameters())[1])


def copy() -> Timed:
    """Copies the same tensors: the opponent."""

    def work() -> float:
        for name, tensor in _state["named"].items():
            _state["copies"][name].copy_(tensor)
        return num_parameters()

    return timed(work)


def num_parameters() -> float:
    """Returns the number of parameters in units of 100 million."""
    return float(sum(tensor.numel() for tensor in _state["named"].values())) / 1e8


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=5, help="interleaved repeats after a warm-up")
    parser.add_argument("--out", type=Path, help="JSON file")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder, worker() as process:
        write_smol(Path(folder))
        for dtype in DTYPES:
            process.call(start, folder, dtype)
            ways = {"ours": lambda: process.call(load), "copy": lambda: process.call(copy)}
            found = interleaved(ways, args.repeats)
            rows.append({"dtype": dtype, "unit": "100M parameters", **summary(found, "ours", "copy")})
            print(json.dumps(rows[-1]), flush=True)
    if args.out:
        args.out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
